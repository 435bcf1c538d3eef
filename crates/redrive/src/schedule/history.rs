//! The history of a schedule.

use std::time::SystemTime;

use crate::dlq::prelude::*;
use crate::schedule::handle::Schedules;

row! {
    /// An entry of the history of a schedule. The database keeps the latest 100 of each.
    #[derive(PartialEq, Eq)]
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
        pub job: Option<JobId>,
        /// The state of the letter of the job; `None`: the job has not died, or its letter was removed.
        pub letter: Option<LetterState>,
        /// The letters that a policy redrove or counted.
        pub letters: Option<u64>,
    }
}

words! {
    /// The outcome of a tick.
    pub enum TickOutcome is "outcome of a tick" {
        /// Enqueued its job, or redrove letters.
        Fired = "fired",
        /// An operator enqueued the job, or redrove letters.
        Triggered = "triggered",
        /// Counted the letters that it would have redriven.
        Counted = "counted",
        /// Was skipped, because an earlier job was live.
        Overlapped = "overlapped",
        /// Was missed and did not run.
        Missed = "missed",
    }
}

impl Schedules<'_> {
    /// Returns the latest entries of the history of a schedule, newest first, at most 100.
    ///
    /// # Errors
    /// If the database fails.
    pub fn history(&self, name: &str, limit: u32) -> Result<Vec<ScheduleTick>> {
        let doing = format!("read the history of the schedule `{name}`");
        let ask = self.db.ask();
        ask.all(&doing, &sql::SCHEDULE_HISTORY, &[&name, &i64::from(limit)])
    }
}
