//! The dead letter queue: letters, groups, and the operations on them.

mod filter;
mod group;
mod history;

mod redrive;
mod runs;

mod archive;
mod as_it_came;
mod capture;
mod deliver;
mod discard;
mod edit;
mod erase;
mod export;
mod exported_past;
mod interrupted;
mod reopen;
mod validate;

mod redaction;
mod retention;

use redrive_tests::prelude::*;

/// Returns `redrive` as a program, for this database.
fn program(test: &TestDatabase) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_test_cli"));
    command.args(["--database-url", test.url()]);
    command
}

/// Inserts this many letters without running jobs.
fn bury(test: &TestDatabase, letters: i64) {
    let died = "INSERT INTO redrive.dead_letters
            (queue, kind, cause, error_class, error_message, payload, enqueued_at)
        SELECT 'orders', 'order', 'rejected', 'Broken', 'broken', '{\"number\": 1}', clock_timestamp()
        FROM generate_series(1, $1::bigint)";
    test.client().change(died, &[&letters]);
}
