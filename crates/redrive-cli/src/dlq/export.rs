//! `redrive dlq export`: letters as lines for `dlq capture --file` or `enqueue --file`.

use redrive::JobId;
use redrive::dlq::LetterFilter;

use super::filter::{narrow, state};
use crate::ndjson::CaptureLine;
use crate::prelude::*;

/// How many skipped letters are named.
const NAMED: usize = 5;

/// Write letters as NDJSON for `dlq capture --file` or `enqueue --file`
///
/// A captured letter keeps its source and position. Any other letter gets the source
/// `redrive:letter` and its id as position. Captured bytes are written unchanged. A captured line
/// keeps the history, generation, counts and redacted values of the letter. Memory use does not depend on the number of letters.
#[derive(Args, Debug)]
#[command(before_help = "\
Examples:
  redrive dlq export orders > orders.ndjson
  redrive dlq export orders --state any | gzip > orders.ndjson.gz
  redrive dlq capture --file orders.ndjson
  redrive dlq export orders kind=order.placed --as-jobs |
    redrive enqueue orders order.placed --file -
")]
pub(super) struct ExportLetters {
    #[command(flatten)]
    selection: Selection,
    /// Only letters in this state: open, redriving, recovered, discarded, quarantined, any, or
    /// waiting, which is open or quarantined [default: open].
    #[arg(long, help_heading = "Selection", value_parser = state)]
    state: Option<LetterFilter>,
    /// Write only the payloads, for `enqueue --file`. Letters that are not JSON, and those whose payload was
    /// redacted, are reported and skipped.
    #[arg(long, help_heading = "Output")]
    as_jobs: bool,
}

impl ExportLetters {
    pub(super) fn run(&self, cx: &mut Context<'_>) -> Result<Ending> {
        let db = cx.database()?;
        let filter = narrow(self.selection.letters()?, self.state.as_ref())?;
        let (mut no_json, mut redacted) = (Skipped::default(), Skipped::default());
        let visited = db.dlq().for_each(&filter, |letter| -> Result<()> {
            if !self.as_jobs {
                let line = CaptureLine::of(letter, |id| db.dlq().captured_bytes(id))?;
                return json_line(cx.out, &line);
            }
            match &letter.payload {
                None => no_json.add(letter.id),
                Some(_) if !letter.redacted.is_empty() => redacted.add(letter.id),
                Some(payload) => json_line(cx.out, payload)?,
            }
            Ok(())
        })?;
        cx.out.flush().map_err(Error::from)?;
        no_json.say("the captured bytes are not JSON", cx);
        redacted.say("the payload was redacted", cx);
        if visited == 0 {
            return cx.nothing("no letter matches");
        }
        let noun = match self.as_jobs {
            true => "job",
            false => "letter",
        };
        let skipped = no_json.count + redacted.count;
        cx.say(format!("{} exported", counted(visited - skipped, noun)));
        Ok(Ending::of(skipped == 0))
    }
}

/// Letters that are skipped for one reason, of which the first are named.
#[derive(Default)]
struct Skipped {
    count: u64,
    named: Vec<String>,
}

impl Skipped {
    fn add(&mut self, id: JobId) {
        self.count += 1;
        if self.named.len() < NAMED {
            self.named.push(id.to_string());
        }
    }

    fn say(&self, why: &str, cx: &mut Context<'_>) {
        if self.count > 0 {
            let letters = counted(self.count, "letter");
            let named = self.named.join(" ");
            let more = if self.count > NAMED as u64 {
                " ..."
            } else {
                ""
            };
            cx.say(format!("{letters} skipped: {why} ({named}{more})"));
        }
    }
}
