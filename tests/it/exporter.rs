//! The exporter, as a program.

mod attacks;
mod deployment;
mod exposition;
mod outage;
mod server;

use redrive_tests::prelude::*;

/// The program.
pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_exporter");

/// Runs the program to its end. Returns its exit code, and what it printed.
fn printed(arguments: &[&str]) -> (Option<i32>, String) {
    let mut command = Command::new(PROGRAM);
    let command = command.args(arguments).env_remove("DATABASE_URL");
    let output = command.output().unwrap();
    let all = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&all).into_owned();
    (output.status.code(), said)
}

/// Returns the backends of exporters in the database of a connection.
pub(crate) fn backends(client: &mut Client) -> Vec<i32> {
    let pids = "SELECT pid FROM pg_stat_activity WHERE datname = current_database() \
                AND application_name = 'redrive_exporter' ORDER BY backend_start";
    client.column(pids, &[])
}

/// Starts an exporter of a database, and waits until it serves.
#[track_caller]
fn serving() -> (TestDatabase, Exporter) {
    let test = TestDatabase::migrated();
    let exporter = Exporter::start(PROGRAM, test.url());
    up(&exporter);
    (test, exporter)
}

/// Ends the connections of exporters to a database.
fn disconnect(test: &TestDatabase) {
    let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
               WHERE datname = current_database() AND application_name = 'redrive_exporter'";
    test.client().sql(end);
}

/// Waits until a scrape says that the database is there.
#[track_caller]
pub(crate) fn up(exporter: &Exporter) {
    wait_until("the database to be up", SOON, || {
        exporter.scrape(10).is_up()
    });
}
