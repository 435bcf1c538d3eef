//! Policies: scheduled redrives, by one process at a time and within limits.

mod commands;
mod hours;
mod limits;
mod others;
mod ticks;

use std::collections::BTreeSet;
use std::time::Duration;

use postgres::{Client, GenericClient};
use redrive::dlq::PolicyStatus;
use redrive::{Database, JobId};
use redrive_tests::{TestDatabase, statement};
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

/// Runs a command and returns its output.
#[track_caller]
fn output_of(test: &TestDatabase, code: u8, arguments: &[&str]) -> String {
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let program = [
        "redrive",
        "--database-url",
        test.url(),
        "--no-wait",
        "dlq",
        "policies",
    ];
    let arguments = program
        .iter()
        .chain(arguments)
        .map(std::ffi::OsString::from);
    let ended = redrive_cli::run(arguments, &mut out, &mut err);
    let err = String::from_utf8(err).unwrap();
    assert_eq!(ended, std::process::ExitCode::from(code), "{err}");
    String::from_utf8(out).unwrap()
}
