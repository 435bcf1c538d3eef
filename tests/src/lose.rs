//! Losing leases on demand: what a crash, a long pause or a cut network does, without waiting
//! for any of it.

use postgres::{Client, GenericClient};
use redrive::{JobId, MAX_CRASHES};

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

/// Runs the reaping statement once, as a worker would, with no delay for suspects.
pub fn reap(client: &mut impl GenericClient) -> Vec<Lost> {
    let lease_ms = 0_i32;
    let limit = 1000_i64;
    let delay_ms = 0_i32;
    let rows = client
        .query(
            statement("reap"),
            &[
                &lease_ms,
                &limit,
                &MAX_CRASHES.cast_signed(),
                &delay_ms,
                &"manual",
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
