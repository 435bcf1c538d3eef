//! Redrive runs whose driver, the command line, is interrupted or loses the database.

use redrive_tests::prelude::*;

use super::super::program;
use super::{all_are_live_once, hurry};

/// Starts a command of `redrive dlq`.
fn start(test: &TestDatabase, line: &str) -> Process {
    let mut command = program(test);
    Process::start(command.arg("dlq").args(line.split(' ')))
}

fn runs(test: &TestDatabase) -> Vec<RedriveRun> {
    test.open().dlq().runs().list(100).unwrap()
}

fn sent(test: &TestDatabase) -> u64 {
    runs(test).iter().map(|run| run.sent).sum()
}

#[test]
fn an_interrupt_pauses_the_run_and_prints_how_to_resume() {
    let (test, _, _) = TestDatabase::with_letters(300);
    let operator = start(&test, "redrive orders --yes --rate 10");
    wait_until("some letters to be sent", SOON, || sent(&test) > 0);
    operator.signal("INT");
    let ended = operator.exits_with(1);
    let id = runs(&test)[0].id;
    ended.tells(format!("redrive dlq runs resume {id}"));
    assert_eq!(runs(&test)[0].state, RunState::Paused);
    hurry(&test);
    start(&test, &format!("runs resume {id} --no-wait"))
        .exits_with(0)
        .shows(format!("run {id}: 300 sent"));
    all_are_live_once(&test, 300);
}

#[test]
fn a_command_that_waits_for_outcomes_reports_each_outage() {
    let (test, _, _) = TestDatabase::with_letters(1);
    let said = TempFile::of("");
    let mut command = program(&test);
    command.args(["dlq", "redrive", "orders", "--yes"]);
    command.stdout(Stdio::null());
    command.stderr(fs::File::create(said.to_string()).unwrap());
    let _operator = Process::start_aloud(&mut command);
    // Only between two looks at the run, so that one succeeds between two outages.
    let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
               WHERE datname = current_database() AND application_name = 'redrive' \
               AND state = 'idle' AND clock_timestamp() - state_change > interval '300 ms'";
    let mut client = test.client();
    wait_until("a second outage to be reported", SOON, || {
        client.sql(end);
        let said = String::from_utf8(said.bytes()).unwrap();
        said.matches("waiting for the database").count() > 1
    });
}
