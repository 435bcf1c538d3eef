//! Redrive runs whose driver, the command line, is killed with SIGKILL.

use std::process::{Child, Command, Output, Stdio};

use redrive::dlq::LetterState;
use redrive::dlq::runs::{RedriveRun, RunState};
use redrive_tests::{
    Begin, SOON, Sql, Tally, TestDatabase, drained, letters, letters_in, stop, wait_until, worker,
};
use uuid::Uuid;

/// A command as a process, killed with SIGKILL at the end of the test at the latest.
struct Operator(Option<Child>);

impl Operator {
    fn start(test: &TestDatabase, arguments: &[&str]) -> Operator {
        let child = Command::new(env!("CARGO_BIN_EXE_test_cli"))
            .args(["--database-url", test.url(), "dlq"])
            .args(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("start a command");
        Operator(Some(child))
    }

    /// Kills the process with SIGKILL and waits for its end.
    fn kill(&mut self) {
        if let Some(mut child) = self.0.take() {
            // The process may have ended already.
            _ = child.kill();
            child.wait().expect("wait for its end");
        }
    }

    /// Sends SIGINT, as Ctrl-C does.
    fn interrupt(&self) {
        let id = self.0.as_ref().expect("a command that runs").id();
        let sent = Command::new("kill")
            .args(["-INT", &id.to_string()])
            .status()
            .expect("send a signal");
        assert!(sent.success());
    }

    /// Whether the process ended.
    fn has_ended(&mut self) -> bool {
        let child = self.0.as_mut().expect("a command");
        child.try_wait().expect("ask for its end").is_some()
    }

    /// Waits for the end and returns the output.
    fn end(mut self) -> Output {
        let child = self.0.take().expect("a command that runs");
        child.wait_with_output().expect("wait for its end")
    }
}

impl Drop for Operator {
    fn drop(&mut self) {
        self.kill();
    }
}

fn runs(test: &TestDatabase) -> Vec<RedriveRun> {
    test.open().dlq().runs().list(100).unwrap()
}

fn sent(test: &TestDatabase) -> u64 {
    runs(test).iter().map(|run| run.sent).sum()
}

/// Expires the lease of every driver.
fn expire_drivers(test: &TestDatabase) {
    test.client().sql("UPDATE redrive.redrive_runs SET driver_expires_at = clock_timestamp() - interval '1 second'");
}

/// Returns a random number below a bound.
fn random(below: u64) -> u64 {
    Uuid::new_v4().as_u64_pair().0 % below
}

/// Checks that each letter is one job, in the tables and the audit.
#[track_caller]
fn all_are_live_once(test: &TestDatabase, letters: i64) {
    let asked = "SELECT count(*), count(DISTINCT id), \
                 (SELECT sum(letters)::bigint FROM redrive.audit WHERE verb = 'redrive') \
                 FROM redrive.live_jobs";
    let row = test.client().query_one(asked, &[]).unwrap();
    let counts: (i64, i64, i64) = (row.get(0), row.get(1), row.get(2));
    assert_eq!(counts, (letters, letters, letters));
}

#[test]
fn a_worker_takes_over_the_run_of_a_killed_driver() {
    let (test, queue) = TestDatabase::with_orders();
    let ids = letters(&queue, 1000);
    let mut operator = Operator::start(
        &test,
        &[
            "redrive", "orders", "--yes", "--rate", "20", "--reason", "fixed",
        ],
    );
    wait_until("some letters to be sent", SOON, || sent(&test) > 0);
    operator.kill();
    let before = sent(&test);
    assert!(before < 1000, "it was killed too late");
    expire_drivers(&test);
    let faster = "UPDATE redrive.redrive_runs SET rate = NULL";
    test.client().sql(faster);

    let tally = Tally::new();
    let worker = worker(&queue).handle(tally.counting()).started();
    wait_until("a worker to finish the run", SOON, || {
        runs(&test)[0].state == RunState::Finished
    });
    drained(&queue);
    wait_until("the outcomes", SOON, || runs(&test)[0].recovered == 1000);
    stop(worker);
    assert!(ids.iter().all(|id| tally.of(*id) == 1), "each ran once");
    assert_eq!(
        letters_in(queue.database(), "orders", LetterState::Recovered),
        1000
    );
}

#[test]
fn eight_killed_and_resumed_commands_send_every_letter_once() {
    let (test, queue) = TestDatabase::with_orders();
    letters(&queue, 4000);
    // Eight commands redrive the same letters; each is killed midway.
    let redrive = ["redrive", "orders", "--yes", "--no-wait", "--rate", "1500"];
    let mut operators: Vec<Operator> = (0..8).map(|_| Operator::start(&test, &redrive)).collect();
    wait_until("eight runs", SOON, || runs(&test).len() == 8);
    for next in 0..operators.len() {
        let enough = sent(&test) + random(400);
        wait_until(
            "some letters to be sent, or no run to be left",
            SOON,
            || sent(&test) >= enough || operators[next..].iter_mut().all(Operator::has_ended),
        );
        operators[next].kill();
    }
    // Resumed and killed again until no run is left to resume.
    for round in 0.. {
        let left: Vec<String> = runs(&test)
            .iter()
            .filter(|run| run.state == RunState::Running)
            .map(|run| run.id.to_string())
            .collect();
        if left.is_empty() {
            break;
        }
        expire_drivers(&test);
        let tried = || runs(&test).iter().map(|run| run.tried).sum::<u64>();
        let enough = tried() + random(2000);
        let operators: Vec<Operator> = left
            .iter()
            .map(|id| Operator::start(&test, &["runs", "resume", id, "--no-wait"]))
            .collect();
        if round < 3 {
            wait_until("some letters to be tried", SOON, || {
                let all = runs(&test);
                tried() >= enough || all.iter().all(|run| run.state == RunState::Finished)
            });
            drop(operators);
        } else {
            for operator in operators {
                operator.end();
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
    assert_eq!(letters_in(queue.database(), "orders", LetterState::Open), 0);
}

#[test]
fn an_interrupt_pauses_the_run_and_prints_how_to_resume() {
    let (test, queue) = TestDatabase::with_orders();
    letters(&queue, 300);
    let operator = Operator::start(&test, &["redrive", "orders", "--yes", "--rate", "10"]);
    wait_until("some letters to be sent", SOON, || sent(&test) > 0);
    operator.interrupt();
    let ended = operator.end();
    assert_eq!(ended.status.code(), Some(1));
    let said = String::from_utf8_lossy(&ended.stderr);
    let id = runs(&test)[0].id;
    assert!(
        said.contains(&format!("redrive dlq runs resume {id}")),
        "{said}"
    );
    assert_eq!(runs(&test)[0].state, RunState::Paused);
    let faster = "UPDATE redrive.redrive_runs SET rate = NULL";
    test.client().sql(faster);
    let resume = ["runs", "resume", &id.to_string(), "--no-wait"];
    let resumed = Operator::start(&test, &resume).end();
    assert_eq!(resumed.status.code(), Some(0));
    let output = String::from_utf8_lossy(&resumed.stdout);
    assert!(output.contains(&format!("run {id}: 300 sent")), "{output}");
    all_are_live_once(&test, 300);
}
