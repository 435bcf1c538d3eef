//! `redrive schedule history`: what the latest ticks did.

use redrive::dlq::LetterState;
use redrive::schedule::ScheduleTick;

use super::list::no_schedule;
use crate::prelude::*;
use crate::time::zoned;

/// The entries that the database keeps of each schedule.
const KEPT: u32 = 100;

/// List what the latest ticks of a schedule did, with the states of the letters of their jobs
///
/// The database keeps the latest 100 entries of each schedule. A job without a letter has not died.
#[derive(Args, Debug)]
#[command(
    before_help = "\
Examples:
  redrive schedule history nightly-report
  redrive schedule history nightly-report --json | jq -r .state
",
    after_help = "The exit code is 1 if the schedule does not exist or has not ticked."
)]
pub(crate) struct ShowHistory {
    /// Name of the schedule.
    name: String,
}

impl ShowHistory {
    pub(super) fn run(&self, cx: &mut Context<'_>) -> Result<Ending> {
        let db = cx.database()?;
        let Some(schedule) = db.schedules().get(&self.name)? else {
            return no_schedule(&self.name, cx);
        };
        let entries = db.schedules().history(&self.name, KEPT)?;
        let has_letters = schedule.policy.is_some();
        let table = table!(entry in &entries => {
            Word "TICK" => zoned(entry.tick_at, schedule.zone.as_deref()),
            Word "OUTCOME" => entry.outcome,
            Number "TICKS" => grouped(entry.ticks),
            Number "JOB" => entry.job.map_or_else(|| "-".to_owned(), |id| id.to_string()),
            Word "LETTER" => entry.letter.map_or("-", LetterState::as_str),
            Number "LETTERS" if has_letters => entry.letters.map_or_else(|| "-".to_owned(), grouped),
        });
        let none = format!("schedule `{}` has not ticked", one_line(&self.name));
        cx.list(&none, &entries, entry_json, &table)
    }
}

fn entry_json(entry: &ScheduleTick) -> impl Serialize {
    object!(entry =>
        tick_at, ran_at = entry.at.json(), outcome, ticks, job, state = entry.letter.json(), letters,
    )
}
