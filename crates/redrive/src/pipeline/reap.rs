//! Reap: takes back the jobs of lost workers.
//!
//! A worker that has not renewed for one lease is presumed dead. Its jobs return as *suspects* with
//! their attempt refunded, because most processes are killed for reasons unrelated to the job. A
//! job that loses its worker [`MAX_CRASHES`] times becomes a letter with the cause `worker_lost`.
//! Every worker reaps; there is no leader.

use std::time::Duration;

use uuid::Uuid;

use crate::db::ask::{Call, all};
use crate::db::sql;
use crate::job::job::JobId;
use crate::job::milliseconds::milliseconds;
use crate::pipeline::claim::MAX_CRASHES;

/// The maximum number of leases, jobs and bytes, compressed as stored, reaped by one statement, but at least one lease.
const MAX_REAPED_LEASES: i32 = 100;
const MAX_REAPED_JOBS: i32 = 10_000;
const MAX_REAPED_BYTES: i32 = 16 * 1024 * 1024;
/// The longest delay per crash, from the second one on. The actual delay is random.
const CRASH_DELAY: Duration = Duration::from_secs(5);

/// Returns the call that reaps expired leases for the worker with these rows, up to what `bound` makes of the usual maximum.
/// It returns the jobs and whether they died; the others came back.
pub(crate) fn reap(
    worker: &[Uuid],
    lease: Duration,
    bound: impl Fn(i32) -> i32,
) -> Call<Vec<(JobId, bool)>> {
    let lease_ms = i32::try_from(milliseconds(lease)).unwrap_or(i32::MAX);
    let delay_ms = i32::try_from(milliseconds(CRASH_DELAY)).unwrap_or(i32::MAX);
    all(
        "reap the jobs of lost workers",
        &sql::REAP,
        &[
            &lease_ms,
            &i64::from(bound(MAX_REAPED_LEASES)),
            &MAX_CRASHES,
            &delay_ms,
            &worker,
            &i64::from(bound(MAX_REAPED_JOBS)),
            &i64::from(bound(MAX_REAPED_BYTES)),
        ],
    )
}
