//! `redrive dlq export`: letters as lines for `dlq capture --file` or `enqueue --file`.

use super::filter::StateArg;
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
    #[arg(long, help_heading = "Selection")]
    state: Option<StateArg>,
    /// Write only the payloads, for `enqueue --file`. Letters that are not JSON are reported
    /// and skipped.
    #[arg(long, help_heading = "Output")]
    as_jobs: bool,
}

impl ExportLetters {
    pub(super) fn run(&self, cx: &mut Context<'_>) -> Result<Ending> {
        let db = cx.database()?;
        let filter = StateArg::narrow(self.selection.letters()?, self.state)?;
        let (mut skipped, mut named) = (0_u64, Vec::new());
        let visited = db.dlq().for_each(&filter, |letter| -> Result<()> {
            if !self.as_jobs {
                let line = CaptureLine::of(letter, |id| db.dlq().captured_bytes(id))?;
                return json_line(cx.out, &line);
            }
            match &letter.payload {
                Some(payload) => json_line(cx.out, payload)?,
                None => {
                    skipped += 1;
                    if named.len() < NAMED {
                        named.push(letter.id.to_string());
                    }
                }
            }
            Ok(())
        })?;
        cx.out.flush().map_err(Error::from)?;
        if skipped > 0 {
            let more = if skipped > NAMED as u64 { " ..." } else { "" };
            cx.say(format!(
                "{} skipped: the captured bytes are not JSON ({}{more})",
                counted(skipped, "letter"),
                named.join(" ")
            ));
        }
        if visited == 0 {
            return cx.nothing("no letter matches");
        }
        let noun = match self.as_jobs {
            true => "job",
            false => "letter",
        };
        cx.say(format!("{} exported", counted(visited - skipped, noun)));
        Ok(Ending::of(skipped == 0))
    }
}
