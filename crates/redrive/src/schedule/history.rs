//! The history of a schedule.

use std::fmt;
use std::time::SystemTime;

use postgres::Row;

use crate::db::sql;
use crate::error::{Error, Result};
use crate::job::job::JobId;
use crate::schedule::handle::Schedules;

/// An entry of the history of a schedule. The database keeps the latest 100 of each.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ScheduleTick {
    /// The time of the tick; of several missed ones, the latest.
    pub tick_at: SystemTime,
    /// When it ran, by the database's clock.
    pub at: SystemTime,
    /// The outcome.
    pub outcome: TickOutcome,
    /// The number of missed ticks; 1 for other outcomes.
    pub ticks: u64,
    /// The new job, or the live job because of which the tick was skipped.
    pub job: Option<(JobId, ScheduledJobState)>,
    /// The letters that a policy redrove or counted.
    pub letters: Option<u64>,
}

/// The outcome of a tick.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TickOutcome {
    /// Enqueued its job, or redrove letters.
    Fired,
    /// An operator enqueued the job, or redrove letters.
    Triggered,
    /// Counted the letters that it would have redriven.
    Counted,
    /// Was skipped, because an earlier job was live.
    Overlapped,
    /// Was missed and did not run.
    Missed,
}

/// The state of the job of a tick.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ScheduledJobState {
    /// It can be claimed.
    Ready,
    /// It runs.
    Leased,
    /// It waits for a retry.
    Delayed,
    /// It is a dead letter.
    Dead,
    /// It is a letter that an operator discarded.
    Discarded,
    /// It is an archived letter.
    Archived,
    /// It is neither live nor a letter, or its letter recovered.
    Done,
}

impl TickOutcome {
    /// All outcomes.
    pub const ALL: [TickOutcome; 5] = [
        TickOutcome::Fired,
        TickOutcome::Triggered,
        TickOutcome::Counted,
        TickOutcome::Overlapped,
        TickOutcome::Missed,
    ];

    /// Returns the name used in the database and by the CLI.
    pub fn as_str(self) -> &'static str {
        match self {
            TickOutcome::Fired => "fired",
            TickOutcome::Triggered => "triggered",
            TickOutcome::Counted => "counted",
            TickOutcome::Overlapped => "overlapped",
            TickOutcome::Missed => "missed",
        }
    }
}

impl fmt::Display for TickOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl ScheduledJobState {
    /// All states.
    pub const ALL: [ScheduledJobState; 7] = [
        ScheduledJobState::Ready,
        ScheduledJobState::Leased,
        ScheduledJobState::Delayed,
        ScheduledJobState::Dead,
        ScheduledJobState::Discarded,
        ScheduledJobState::Archived,
        ScheduledJobState::Done,
    ];

    /// Returns the name used by the CLI.
    pub fn as_str(self) -> &'static str {
        match self {
            ScheduledJobState::Ready => "ready",
            ScheduledJobState::Leased => "leased",
            ScheduledJobState::Delayed => "delayed",
            ScheduledJobState::Dead => "dead",
            ScheduledJobState::Discarded => "discarded",
            ScheduledJobState::Archived => "archived",
            ScheduledJobState::Done => "done",
        }
    }
}

impl fmt::Display for ScheduledJobState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl Schedules<'_> {
    /// Returns the latest entries of the history of a schedule, newest first, at most 100.
    ///
    /// # Errors
    /// If the database rejects the statement or does not answer.
    pub fn history(&self, name: &str, limit: u32) -> Result<Vec<ScheduleTick>> {
        let name = name.to_owned();
        let doing = format!("read the history of the schedule `{name}`");
        self.db.call(&doing.clone(), move |session| {
            let rows =
                session.query(&doing, &sql::SCHEDULE_HISTORY, &[&name, &i64::from(limit)])?;
            rows.iter().map(entry).collect()
        })
    }
}

fn entry(row: &Row) -> Result<ScheduleTick> {
    let unknown = |what: &str| Error::invalid(format!("unknown {what} in the history"));
    let (outcome, state): (&str, Option<&str>) = (row.get("outcome"), row.get("state"));
    let job = match (row.get::<_, Option<i64>>("job_id"), state) {
        (Some(id), Some(text)) => {
            let state = ScheduledJobState::ALL
                .into_iter()
                .find(|state| state.as_str() == text)
                .ok_or_else(|| unknown("state of a job"))?;
            Some((JobId::new(id), state))
        }
        (None, _) | (_, None) => None,
    };
    Ok(ScheduleTick {
        tick_at: row.get("tick_at"),
        at: row.get("at"),
        outcome: TickOutcome::ALL
            .into_iter()
            .find(|known| known.as_str() == outcome)
            .ok_or_else(|| unknown("outcome"))?,
        ticks: row.get::<_, i64>("ticks").unsigned_abs(),
        job,
        letters: row.get::<_, Option<i64>>("letters").map(i64::unsigned_abs),
    })
}
