//! Snapshots that a test holds.

use postgres::{Client, IsolationLevel, Transaction};

use crate::statement::Sql;

/// Begins a transaction whose snapshot is taken now, and which vacuum must respect.
pub fn snapshot(client: &mut Client) -> Transaction<'_> {
    let begin = client.build_transaction();
    let begin = begin.isolation_level(IsolationLevel::RepeatableRead);
    let mut held = begin.start().expect("begin");
    held.sql("SELECT 1");
    held
}
