//! Policies: scheduled redrives, by one process at a time and within limits.

mod hours;
mod limits;
mod ticks;

use std::collections::BTreeSet;
use std::time::Duration;

use postgres::{Client, GenericClient};
use redrive::dlq::PolicyStatus;
use redrive::{Database, JobId};
use redrive_tests::statement;
use uuid::Uuid;

const HOUR: Duration = Duration::from_hours(1);

/// Runs one due policy as the worker with this id, and returns its name and its letters.
fn tick(client: &mut impl GenericClient, holder: Uuid) -> Option<(String, i64)> {
    let row = client
        .query_opt(statement("run_policies"), &[&holder, &60_000_i64])
        .expect("run the policies")?;
    assert_eq!(row.get::<_, Option<&str>>("error"), None);
    Some((row.get("policy"), row.get("letters")))
}

/// Ages the letters and the policies.
fn later(client: &mut Client, by: Duration) {
    let ms = i64::try_from(by.as_millis()).unwrap();
    for table in [
        "policies SET next_at = next_at",
        "dead_letters SET died_at = died_at",
    ] {
        let moved = format!("UPDATE redrive.{table} - $1::bigint * interval '1 millisecond'");
        client.execute(&moved, &[&ms]).unwrap();
    }
}

fn ids(client: &mut Client, condition: &str) -> BTreeSet<JobId> {
    let asked = format!("SELECT l.id FROM redrive.dead_letters l WHERE {condition}");
    let rows = client.query(&asked, &[]).unwrap();
    rows.iter().map(|row| JobId::new(row.get(0))).collect()
}

fn status(db: &Database, name: &str) -> PolicyStatus {
    let mut found = db.dlq().policies().list().unwrap();
    found.retain(|policy| policy.name == name);
    found.pop().expect("the policy")
}
