//! The schedules, as the database stores them.

use std::time::{Duration, SystemTime};

use postgres::Row;
use serde_json::value::RawValue;

use crate::dlq::policy::PolicyStatus;
use crate::dlq::prelude::*;
use crate::job::payload::Json;
use crate::schedule::handle::Schedules;
use crate::schedule::missed::Missed;
use crate::schedule::overlap::Overlap;

row! {
    /// A schedule and its progress.
    pub struct ScheduleStatus {
        /// The name.
        pub name: String,
        /// The cron line; `None` for an interval.
        pub cron: Option<String>,
        /// The time zone of the cron line.
        pub zone: Option<String>,
        /// The interval; `None` for a cron line.
        pub every: Option<Duration>,
        /// The job that each tick enqueues; `None`: it has a policy.
        pub job: Option<ScheduledJob> => job,
        /// The policy whose letters each tick redrives; `None`: it has a job.
        pub policy: Option<PolicyStatus> => policy,
        /// Whether its policy waits for the breaker of its queue or the end of a pause.
        pub is_held: bool,
        /// The policy for missed ticks.
        pub missed: Missed,
        /// The behavior of a tick while an earlier job is live.
        pub overlap: Overlap,
        /// The next tick, by the database's clock. `None`: SQL set the schedule, and no worker has computed it yet.
        pub next_at: Option<SystemTime>,
        /// The latest tick that was due when a tick ran.
        pub last_at: Option<SystemTime>,
        /// Why the last tick failed.
        pub last_trouble: Option<String>,
        /// Since when it is paused.
        pub paused_at: Option<SystemTime>,
        /// When it was created.
        pub created_at: SystemTime,
        /// When it was last changed.
        pub changed_at: SystemTime,
    }
}

row! {
    /// The job of each tick.
    pub struct ScheduledJob {
        /// The queue.
        pub queue: String,
        /// The kind.
        pub kind: String,
        /// The payload.
        pub payload: Box<RawValue>,
        /// The priority.
        pub priority: i16,
        /// The number of attempts.
        pub max_attempts: u32,
        /// The headers, without those that each tick adds.
        pub headers: std::collections::BTreeMap<String, String>,
    }
}

impl Schedules<'_> {
    /// Returns all schedules by name.
    ///
    /// # Errors
    /// If the database fails.
    pub fn list(&self) -> Result<Vec<ScheduleStatus>> {
        self.read(None)
    }

    /// Returns a schedule; `None`: it does not exist.
    ///
    /// # Errors
    /// If the database fails.
    pub fn get(&self, name: &str) -> Result<Option<ScheduleStatus>> {
        Ok(self.read(Some(name))?.pop())
    }

    fn read(self, name: Option<&str>) -> Result<Vec<ScheduleStatus>> {
        let ask = self.db.ask();
        ask.all("list the schedules", &sql::SCHEDULES, &[&name])
    }
}

fn job(row: &Row) -> Result<Option<ScheduledJob>> {
    match row.get::<_, Option<Json>>("payload") {
        Some(_) => ScheduledJob::from_row(row).map(Some),
        None => Ok(None),
    }
}

fn policy(row: &Row) -> Result<Option<PolicyStatus>> {
    let policy: Option<Json> = row.get("policy");
    let unreadable = |error| Error::invalid("the stored policy cannot be read").caused_by(error);
    policy
        .map(|json| serde_json::from_str(json.as_str()).map_err(unreadable))
        .transpose()
}
