//! Expires leases on demand, as a crash, a long pause or a network failure would.

use std::time::Duration;

use postgres::types::ToSql;
use postgres::{Client, GenericClient};
use redrive::JobId;
use redrive::limits::MAX_CRASHES;
use uuid::Uuid;

use crate::statement::{Sql as _, statement};

/// The state of a job whose lease expired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lost {
    /// It is ready or delayed again.
    Back(JobId),
    /// It is a letter.
    Dead(JobId),
}

/// Expires every lease: ages the workers and reaps in the same transaction, so that no renewal can
/// come between.
pub fn expire_leases(client: &mut Client) -> Vec<Lost> {
    let mut transaction = client.transaction().expect("begin");
    transaction
        .sql("UPDATE redrive.workers SET expires_at = clock_timestamp() - interval '1 second'");
    let lost = reap(&mut transaction);
    transaction.commit().expect("commit");
    lost
}

/// Runs the reap statement once, without a grace for leases whose worker has no row and without a delay for suspects.
pub fn reap(client: &mut impl GenericClient) -> Vec<Lost> {
    reap_within(client, Duration::ZERO, ReapLimits::default())
}

/// The bounds of the reap statement.
#[derive(Clone, Copy, Debug)]
pub struct ReapLimits {
    /// Leases.
    pub leases: i64,
    /// Jobs.
    pub jobs: i64,
    /// Bytes, as stored.
    pub bytes: i64,
    /// The worker that reaps.
    pub worker: Uuid,
    /// How many workers a job may lose.
    pub crashes: u32,
    /// The delay for each lost worker from the second one on, in milliseconds.
    pub delay_ms: i32,
}

impl Default for ReapLimits {
    fn default() -> ReapLimits {
        ReapLimits {
            leases: 1000,
            jobs: i64::MAX,
            bytes: i64::MAX,
            // No test claims as this worker.
            worker: Uuid::max(),
            crashes: MAX_CRASHES,
            delay_ms: 0,
        }
    }
}

/// Runs the reap statement once with these bounds.
pub fn reap_within(
    client: &mut impl GenericClient,
    lease: Duration,
    limits: ReapLimits,
) -> Vec<Lost> {
    let lease_ms = i32::try_from(lease.as_millis()).expect("a lease of hours at most");
    let (leases, jobs, bytes) = (limits.leases, limits.jobs, limits.bytes);
    let (crashes, workers) = (limits.crashes.cast_signed(), vec![limits.worker]);
    let delay = limits.delay_ms;
    let values: [&(dyn ToSql + Sync); 7] = [
        &lease_ms, &leases, &crashes, &delay, &workers, &jobs, &bytes,
    ];
    let rows = client.query(statement("reap"), &values).expect("reap");
    let lost = rows.iter().map(|row| match row.get("is_dead") {
        true => Lost::Dead(JobId::new(row.get("id"))),
        false => Lost::Back(JobId::new(row.get("id"))),
    });
    lost.collect()
}
