//! Redrive runs whose driver, the command line, is killed with SIGKILL.

use redrive_tests::prelude::*;

use super::super::program;
use super::{all_are_live_once, expire, hurry};

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

/// Returns a random number below a bound.
fn random(below: u64) -> u64 {
    Uuid::new_v4().as_u64_pair().0 % below
}

#[test]
fn eight_killed_and_resumed_commands_send_every_letter_once() {
    let (test, queue, _) = TestDatabase::with_letters(4000);
    // Eight commands redrive the same letters; each is killed midway.
    let redrive = "redrive orders --yes --no-wait --rate 1500";
    let mut operators: Vec<Process> = (0..8).map(|_| start(&test, redrive)).collect();
    wait_until("eight runs", SOON, || runs(&test).len() == 8);
    for next in 0..operators.len() {
        let enough = sent(&test) + random(400);
        wait_until("letters to be sent, or all to have ended", SOON, || {
            let mut left = operators[next..].iter_mut();
            sent(&test) >= enough || left.all(|one| one.ended().is_some())
        });
        operators[next].kill();
    }
    // Resumed and killed again until no run is left to resume.
    for round in 0.. {
        let mut left = runs(&test);
        left.retain(|run| run.state == RunState::Running);
        if left.is_empty() {
            break;
        }
        expire(&test);
        let tried = || runs(&test).iter().map(|run| run.tried).sum::<u64>();
        let enough = tried() + random(2000);
        let resume = |run: &RedriveRun| format!("runs resume {} --no-wait", run.id);
        let operators = left.iter().map(|run| start(&test, &resume(run)));
        let operators: Vec<Process> = operators.collect();
        if round < 3 {
            wait_until("some letters to be tried", SOON, || {
                let all = runs(&test);
                tried() >= enough || all.iter().all(|run| run.state == RunState::Finished)
            });
            drop(operators);
        } else {
            for operator in operators {
                operator.output();
            }
        }
    }
    let runs = runs(&test);
    assert_eq!(runs.len(), 8);
    for run in &runs {
        assert_eq!(run.state, RunState::Finished, "{run:?}");
        assert_eq!((run.tried, run.sent + run.skipped), (run.total, run.total));
    }
    assert_eq!(runs.iter().map(|run| run.sent).sum::<u64>(), 4000);
    all_are_live_once(&test, 4000);
    assert_eq!(in_state(&queue, LetterState::Open), 0);
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
