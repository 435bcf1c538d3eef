//! `redrive schedule history`: what the latest ticks did.

use clap::Args;
use redrive::schedule::ScheduleTick;
use serde_json::{Value, json};

use super::zoned::zoned;
use crate::context::{Context, Ending};
use crate::error::Result;
use crate::terminal::{Column, Table, grouped, json_line, one_line};
use crate::time::rfc3339;

/// List what the latest ticks of a schedule did, with the states of their jobs
///
/// The database keeps the latest 100 entries of each schedule. A job that is neither live nor a
/// dead letter is `done`.
#[derive(Args, Debug)]
#[command(
    before_help = "\
Examples:
  redrive schedule history nightly-report
  redrive schedule history nightly-report --limit 100 --json | jq -r .state
",
    after_help = "The exit code is 1 if the schedule does not exist or has not ticked."
)]
pub(super) struct ShowHistory {
    /// Name of the schedule.
    name: String,
    /// Show at most this many entries; 1 to 100.
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=100))]
    limit: u32,
}

impl ShowHistory {
    pub(super) fn run(&self, cx: &mut Context<'_>) -> Result<Ending> {
        let db = cx.database()?;
        let Some(schedule) = db.schedules().get(&self.name)? else {
            cx.say(format!(
                "schedule `{}` does not exist",
                one_line(&self.name)
            ));
            return Ok(Ending::NothingMatched);
        };
        let entries = db.schedules().history(&self.name, self.limit)?;
        if entries.is_empty() {
            cx.say(format!(
                "schedule `{}` has not ticked",
                one_line(&self.name)
            ));
            return Ok(Ending::NothingMatched);
        }
        if cx.global.json {
            for entry in &entries {
                json_line(cx.out, &entry_json(entry))?;
            }
            return Ok(Ending::Done);
        }
        let mut table = Table::new([
            Column::Word("TICK"),
            Column::Word("OUTCOME"),
            Column::Number("TICKS"),
            Column::Number("JOB"),
            Column::Word("STATE"),
        ]);
        for entry in &entries {
            table.row([
                zoned(entry.tick_at, schedule.zone.as_deref()),
                entry.outcome.to_string(),
                grouped(entry.ticks),
                entry
                    .job
                    .map_or_else(|| "-".to_owned(), |(id, _)| id.to_string()),
                entry
                    .job
                    .map_or_else(|| "-".to_owned(), |(_, state)| state.to_string()),
            ]);
        }
        table.write(cx.out)?;
        Ok(Ending::Done)
    }
}

fn entry_json(entry: &ScheduleTick) -> Value {
    json!({
        "tick_at": rfc3339(entry.tick_at),
        "ran_at": rfc3339(entry.at),
        "outcome": entry.outcome.as_str(),
        "ticks": entry.ticks,
        "job": entry.job.map(|(id, _)| id.get()),
        "state": entry.job.map(|(_, state)| state.as_str()),
    })
}
