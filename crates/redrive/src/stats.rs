//! Stats: the numbers of the queues, for a person who asks. Jobs are counted row by row, letters
//! by the totals of their failure groups.

use std::time::{Duration, SystemTime};

use crate::database::Database;
use crate::error::Result;
use crate::group::GroupId;
use crate::reason::Reason;
use crate::sql;

/// The numbers of one queue.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct QueueStats {
    /// Its name.
    pub queue: String,
    /// Jobs that can be claimed now.
    pub ready: u64,
    /// Jobs whose time has not come.
    pub delayed: u64,
    /// Jobs that workers have.
    pub leased: u64,
    /// For how long the oldest ready job has been ready.
    pub oldest_ready: Option<Duration>,
    /// Workers that are alive.
    pub workers: u64,
    /// Their slots, together.
    pub slots: u64,
    /// Letters that wait for somebody.
    pub open: u64,
    /// Letters whose jobs are live again.
    pub redriving: u64,
    /// Letters whose jobs were done after a redrive.
    pub recovered: u64,
    /// Letters that an operator closed.
    pub discarded: u64,
    /// Letters that died the same way after too many redrives.
    pub quarantined: u64,
    /// When the oldest open letter died last.
    pub oldest_open: Option<SystemTime>,
    /// The open letters by failure group, the most first.
    pub failures: Vec<FailureCount>,
}

/// Open letters of one failure group.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct FailureCount {
    /// The group.
    pub group: GroupId,
    /// Why the newest of them died.
    pub reason: Reason,
    /// The class of their error.
    pub error_class: String,
    /// How many.
    pub letters: u64,
    /// The message of the newest of them.
    pub sample: String,
    /// When the first of them died.
    pub first_at: SystemTime,
    /// When the last of them died.
    pub last_at: SystemTime,
}

impl Database {
    /// The numbers of a queue, or of all that have anything; sorted by name.
    ///
    /// # Errors
    /// When the database refuses or does not answer within a minute: it counts rows.
    pub fn stats(&self, queue: Option<&str>) -> Result<Vec<QueueStats>> {
        let queue = queue.map(str::to_owned);
        self.call_bulk("count jobs and letters", move |session| {
            let count =
                |row: &postgres::Row, column: &str| row.get::<_, i64>(column).unsigned_abs();
            let rows = session.query("count jobs and letters", &sql::STATS, &[&queue])?;
            let failures = session.query("count failures", &sql::STATS_FAILURES, &[&queue])?;
            let failures = failures
                .iter()
                .map(|row| {
                    let failure = FailureCount {
                        group: GroupId::new(row.get("id")),
                        reason: row.get::<_, &str>("reason").parse()?,
                        error_class: row.get("error_class"),
                        letters: count(row, "letters"),
                        sample: row.get("sample"),
                        first_at: row.get("first_at"),
                        last_at: row.get("last_at"),
                    };
                    Ok((row.get("queue"), failure))
                })
                .collect::<Result<Vec<(String, FailureCount)>>>()?;
            let of_queue = |queue: &str| {
                failures
                    .iter()
                    .filter(|(of, _)| of == queue)
                    .map(|(_, failure)| failure.clone())
                    .collect()
            };
            Ok(rows
                .iter()
                .map(|row| {
                    let queue: String = row.get("queue");
                    QueueStats {
                        failures: of_queue(&queue),
                        queue,
                        ready: count(row, "ready"),
                        delayed: count(row, "delayed"),
                        leased: count(row, "leased"),
                        oldest_ready: row
                            .get::<_, Option<i64>>("oldest_ready_ms")
                            .map(|ms| Duration::from_millis(ms.max(0).unsigned_abs())),
                        workers: count(row, "workers"),
                        slots: count(row, "slots"),
                        open: count(row, "open"),
                        redriving: count(row, "redriving"),
                        recovered: count(row, "recovered"),
                        discarded: count(row, "discarded"),
                        quarantined: count(row, "quarantined"),
                        oldest_open: row.get("oldest_open"),
                    }
                })
                .collect())
        })
    }
}
