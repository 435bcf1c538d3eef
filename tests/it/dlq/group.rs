//! Failure groups: fingerprints, counts, and what operators record about them.

mod corpus;
mod identity;
mod lifecycle;
mod rules;

use redrive_tests::prelude::*;

/// Inserts a letter with this message as the statement of a worker does, and returns its group.
fn die(client: &mut Client, class: &str, message: &str) -> i64 {
    client.ask("INSERT INTO redrive.dead_letters (queue, kind, cause, error_class, error_message, payload, enqueued_at)
             VALUES ('orders', 'order', 'exhausted', $1, $2, '{}', now()) RETURNING group_id", &[&class, &message])
}

/// Returns the only group.
#[track_caller]
fn the_group(db: &Database) -> FailureGroup {
    let mut groups = db.groups(&GroupFilter::new());
    assert_eq!(groups.len(), 1, "{groups:?}");
    groups.remove(0)
}
