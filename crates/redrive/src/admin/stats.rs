//! The statistics of queues.

use std::time::{Duration, SystemTime};

use postgres::Row;
use serde::Deserialize;

use crate::db::admin::Admin;
use crate::db::column::Column;
use crate::dlq::prelude::*;
use crate::pipeline::pause::QueuePause;

row! {
    /// The statistics of one queue.
    #[derive(Default)]
    pub struct QueueStats {
        /// The queue.
        pub queue: String,
        /// The pause, if an operator paused the queue.
        pub pause: Option<QueuePause> = pause,
        /// Ready jobs.
        pub ready: u64,
        /// Delayed jobs.
        pub delayed: u64,
        /// Leased jobs.
        pub leased: u64,
        /// The age of the oldest ready job.
        pub oldest_ready: Option<Duration>,
        /// Live workers.
        pub workers: u64,
        /// The slots of all live workers.
        pub slots: u64,
        /// Open letters.
        pub open: u64,
        /// Redriving letters.
        pub redriving: u64,
        /// Recovered letters.
        pub recovered: u64,
        /// Discarded letters.
        pub discarded: u64,
        /// Quarantined letters.
        pub quarantined: u64,
        /// When the oldest open letter last died. Letters of ignored groups do not count.
        pub oldest_open: Option<SystemTime>,
        /// Live jobs by kind, most jobs first.
        pub kinds: Vec<KindStats>,
    }
}

/// The live jobs of one kind in a queue.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[non_exhaustive]
pub struct KindStats {
    /// The kind.
    pub kind: String,
    /// Ready jobs.
    pub ready: u64,
    /// Delayed jobs.
    pub delayed: u64,
    /// Leased jobs.
    pub leased: u64,
    /// Ready jobs that wait behind a letter that holds their group.
    pub held: u64,
    /// Whether a live worker of the queue handles the kind.
    pub is_handled: bool,
}

impl Column for Vec<KindStats> {
    type Stored = Json;

    fn read(stored: Json) -> Result<Vec<KindStats>> {
        serde_json::from_str(stored.as_str())
            .map_err(|error| Error::invalid("cannot read the kinds of a queue").caused_by(error))
    }
}

impl Admin<'_> {
    /// Returns the time of the database, whose clock decides when a job is due.
    ///
    /// # Errors
    /// If the database does not answer.
    pub fn now(&self) -> Result<SystemTime> {
        self.db.ask().one("read the time", &sql::NOW, &[])
    }

    /// Returns the statistics of one queue, or of all queues by name.
    ///
    /// # Errors
    /// If the database fails.
    pub fn stats(&self, queue: Option<&str>) -> Result<Vec<QueueStats>> {
        let ask = self.db.ask_bulk();
        ask.all("count jobs and letters", &sql::STATS, &[&queue])
    }
}

fn pause(row: &Row) -> Option<QueuePause> {
    let paused_at: Option<SystemTime> = row.get("paused_at");
    paused_at.map(|paused_at| QueuePause {
        paused_at,
        ends_at: row.get("ends_at"),
        person: row.get("person"),
        reason: row.get("reason"),
    })
}
