//! `redrive dlq show`: one letter with its history.

use redrive::JobId;

use crate::letter::{print_letter, print_next, whole_letter_line};
use crate::prelude::*;

/// How many of the newest runs are shown.
const RUNS: u32 = 100;

/// Show a letter, also of the archive: details, payload, error and timeline
#[derive(Args, Debug)]
#[command(before_help = "\
Examples:
  redrive dlq show 42
  redrive dlq show 42 --raw > event.bin
")]
pub(super) struct ShowLetter {
    /// The id of the letter, which is the id of its job.
    id: JobId,
    /// Write only the captured bytes, unchanged. A handler of `redrive work --exec` passes
    /// `$REDRIVE_JOB_ID`.
    #[arg(long)]
    raw: bool,
}

impl ShowLetter {
    pub(super) fn run(&self, cx: &mut Context<'_>) -> Result<Ending> {
        if self.raw && cx.global.json {
            return Err(Error::new(
                "--raw writes bytes and cannot be used with --json",
            ));
        }
        let db = cx.database()?;
        if self.raw {
            let bytes = match db.dlq().captured_bytes(self.id)? {
                None if db.dlq().get(self.id)?.is_none() => db.dlq().archived_bytes(self.id)?,
                bytes => bytes,
            };
            let Some(bytes) = bytes else {
                return cx.nothing(format!("letter {} has no captured bytes", self.id));
            };
            cx.out.write_all(&bytes)?;
            return Ok(Ending::Done);
        }
        let letter = match db.dlq().get(self.id)? {
            None => db.dlq().archived_letter(self.id)?,
            letter => letter,
        };
        let Some(letter) = letter else {
            return cx.nothing(match db.admin().job(self.id)? {
                Some(job) => format!(
                    "letter {} does not exist; the job is {}: {Me} job show {}",
                    self.id, job.state, self.id
                ),
                None => format!("letter {} does not exist", self.id),
            });
        };
        let runs = db.dlq().runs().of_letter(self.id, RUNS)?;
        let held = db.dlq().held_group(self.id)?;
        if cx.global.json {
            json_line(cx.out, &whole_letter_line(&letter, &runs, held.as_ref()))?;
        } else {
            print_letter(cx.out, &letter, &runs, held.as_ref())?;
            print_next(&letter, cx)?;
        }
        Ok(Ending::Done)
    }
}
