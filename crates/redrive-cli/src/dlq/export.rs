//! `redrive dlq export`: letters as lines for `dlq capture --file` or `enqueue --file`.

use redrive::dlq::LetterState;

use crate::ndjson::CaptureLine;
use crate::not_done::NotDone;
use crate::prelude::*;

/// Write open letters as NDJSON for `dlq capture --file` or `enqueue --file`
///
/// A captured letter keeps its source and position. Any other letter gets the source
/// `redrive:letter` and its id as position. Captured bytes are written unchanged. A captured line
/// keeps the history, generation, counts and redacted values of the letter. Memory use does not depend on the number of letters.
/// The condition state=any selects letters in every state.
#[derive(Args, Debug)]
#[command(before_help = "\
Examples:
  redrive dlq export orders > orders.ndjson
  redrive dlq export orders state=any | gzip > orders.ndjson.gz
  redrive dlq capture --file orders.ndjson
  redrive dlq export orders kind=order.placed --as-jobs |
    redrive enqueue orders order.placed --file -
")]
pub(super) struct ExportLetters {
    #[command(flatten)]
    selection: Selection,
    /// Write only the payloads, for `enqueue --file`. Letters that are not JSON, and those whose payload was
    /// redacted, are reported and skipped.
    #[arg(long, help_heading = "Output")]
    as_jobs: bool,
}

impl ExportLetters {
    pub(super) fn run(&self, cx: &mut Context<'_>) -> Result<Ending> {
        let db = cx.database()?;
        let filter = self.selection.letters()?.or_state(LetterState::Open);
        let mut skipped = NotDone::default();
        let visited = db.dlq().for_each(&filter, |letter| -> Result<()> {
            if !self.as_jobs {
                let line = CaptureLine::of(letter, |id| db.dlq().captured_bytes(id))?;
                return json_line(cx.out, &line);
            }
            let (reason, why) = match &letter.payload {
                None => ("no_json", "the captured bytes are not JSON"),
                Some(_) if !letter.redacted.is_empty() => ("redacted", "the payload was redacted"),
                Some(payload) => return json_line(cx.out, payload),
            };
            skipped.0.push((letter.id, (reason, why.to_owned())));
            Ok(())
        })?;
        cx.out.flush().map_err(Error::from)?;
        if visited == 0 {
            return cx.nothing("no letter matches");
        }
        skipped.say("letter", "exported", cx);
        let noun = match self.as_jobs {
            true => "job",
            false => "letter",
        };
        let exported = visited - skipped.0.len() as u64;
        cx.say(format!("{} exported", counted(exported, noun)));
        Ok(Ending::of(skipped.0.is_empty()))
    }
}
