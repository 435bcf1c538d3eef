//! Queue statistics. Jobs are counted row by row, letters from the totals of their failure
//! groups.

use std::time::{Duration, SystemTime};

use crate::db::admin::Admin;
use crate::db::sql;
use crate::dlq::id::GroupId;
use crate::error::Result;
use crate::job::death_cause::DeathCause;
use crate::pipeline::pause::QueuePause;

/// The statistics of one queue.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct QueueStats {
    /// The queue.
    pub queue: String,
    /// The pause, if an operator paused the queue.
    pub pause: Option<QueuePause>,
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
    /// Open letters by failure group, most letters first.
    pub failures: Vec<FailureCount>,
}

/// The live jobs of one kind in a queue.
#[derive(Clone, Debug, PartialEq, Eq)]
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

/// The open letters of one failure group.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct FailureCount {
    /// The group.
    pub group: GroupId,
    /// The cause of the newest death.
    pub cause: DeathCause,
    /// The error class.
    pub error_class: String,
    /// The number of letters.
    pub letters: u64,
    /// The message of the newest death.
    pub sample: String,
    /// The first death.
    pub first_at: SystemTime,
    /// The last death.
    pub last_at: SystemTime,
}

impl Admin<'_> {
    /// Returns the statistics of one queue, or of all queues by name.
    ///
    /// # Errors
    /// If the database rejects the statement or does not answer within a minute.
    pub fn stats(&self, queue: Option<&str>) -> Result<Vec<QueueStats>> {
        let queue = queue.map(str::to_owned);
        self.db.call_bulk("count jobs and letters", move |session| {
            let count =
                |row: &postgres::Row, column: &str| row.get::<_, i64>(column).unsigned_abs();
            let rows = session.query("count jobs and letters", &sql::STATS, &[&queue])?;
            let failures = session.query("count failures", &sql::STATS_FAILURES, &[&queue])?;
            let kinds = session.query("count jobs by kind", &sql::STATS_KINDS, &[&queue])?;
            let failures = failures
                .iter()
                .map(|row| {
                    let failure = FailureCount {
                        group: GroupId::new(row.get("id")),
                        cause: row.get::<_, &str>("cause").parse()?,
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
            let kinds_of = |queue: &str| {
                kinds
                    .iter()
                    .filter(|row| row.get::<_, &str>("queue") == queue)
                    .map(|row| KindStats {
                        kind: row.get("kind"),
                        ready: count(row, "ready"),
                        delayed: count(row, "delayed"),
                        leased: count(row, "leased"),
                        held: count(row, "held"),
                        is_handled: row.get("is_handled"),
                    })
                    .collect()
            };
            Ok(rows
                .iter()
                .map(|row| {
                    let queue: String = row.get("queue");
                    QueueStats {
                        failures: of_queue(&queue),
                        kinds: kinds_of(&queue),
                        queue,
                        pause: row
                            .get::<_, Option<SystemTime>>("paused_at")
                            .map(|paused_at| QueuePause {
                                paused_at,
                                ends_at: row.get("ends_at"),
                                person: row.get("person"),
                                reason: row.get("reason"),
                            }),
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
