//! Losing leases on demand: what a crash, a long pause or a cut network does, without waiting
//! for any of it.

use std::time::Duration;

use postgres::{Client, GenericClient};
use redrive::{JobId, MAX_CRASHES, Reason};

use crate::statement::statement;

/// What became of a job whose lease was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lost {
    /// It is ready or delayed again.
    Back(JobId),
    /// It is a letter.
    Dead(JobId),
}

/// Takes the leases of every worker away: ages the workers, and reaps in the same transaction,
/// so that no renewal comes in between.
pub fn lose_leases(client: &mut Client) -> Vec<Lost> {
    let mut transaction = client.transaction().expect("begin");
    transaction
        .execute(
            "UPDATE redrive.workers SET expires_at = clock_timestamp() - interval '1 second'",
            &[],
        )
        .expect("age the workers");
    let lost = reap(&mut transaction);
    transaction.commit().expect("commit");
    lost
}

/// Runs the reaping statement once, with no patience for leases whose worker has no row.
pub fn reap(client: &mut impl GenericClient) -> Vec<Lost> {
    reap_after(client, Duration::ZERO)
}

/// Runs the reaping statement once, as a worker with this lease time would, but with no delay
/// for suspects.
pub fn reap_after(client: &mut impl GenericClient, lease: Duration) -> Vec<Lost> {
    let lease_ms = i32::try_from(lease.as_millis()).expect("a lease of hours at most");
    let (limit, delay_ms) = (1000_i64, 0_i32);
    let rows = client
        .query(
            statement("reap"),
            &[
                &lease_ms,
                &limit,
                &MAX_CRASHES.cast_signed(),
                &delay_ms,
                &Reason::Manual.as_str(),
            ],
        )
        .expect("reap");
    rows.iter()
        .map(|row| {
            let id = JobId::new(row.get("id"));
            if row.get("is_dead") {
                Lost::Dead(id)
            } else {
                Lost::Back(id)
            }
        })
        .collect()
}
