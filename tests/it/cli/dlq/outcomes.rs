//! A redrive waits for the outcomes of its jobs, and says for what it waits.

use std::process::ExitCode;
use std::thread;

use redrive::dlq::runs::{RedriveRun, RunState};
use redrive_tests::{Ran, SOON, TestDatabase, ran_alone, wait_until};

use super::super::{letters, redrive};

/// Runs a command without `--no-wait`.
fn waiting(db: &TestDatabase, arguments: &[&str]) -> Ran {
    ran_alone(&[&["--database-url", db.url()], arguments].concat())
}

fn newest(db: &TestDatabase) -> Option<RedriveRun> {
    db.open().dlq().runs().list(1).unwrap().pop()
}

/// Redrives with these options while a command runs the jobs, once all are sent.
fn redriven(db: &TestDatabase, options: &[&str], handler: &str) -> Ran {
    let last = newest(db).map(|run| run.id);
    let redrive_all = [&["dlq", "redrive", "orders", "--yes"], options].concat();
    thread::scope(|scope| {
        let command = scope.spawn(|| waiting(db, &redrive_all));
        wait_until("the letters to be sent", SOON, || {
            newest(db).is_some_and(|run| Some(run.id) != last && run.state == RunState::Finished)
        });
        redrive(db, &["work", "orders", "--exec", handler, "--drain"]).exits_with(0);
        command.join().expect("the command")
    })
}

#[test]
fn a_redrive_waits_for_the_outcomes_and_fails_if_too_many_letters_die() {
    let db = TestDatabase::migrated();
    letters(&db, &db.queue("orders"), 12);
    let died = redriven(&db, &["--unthrottled"], "echo broken >&2; exit 65").exits_with(1);
    assert!(
        died.out
            .contains("run 1: 12 sent, 0 recovered, 12 died again\n"),
        "{}",
        died.out
    );
    assert!(
        died.err.contains("more than the tolerated 10 % died again")
            && died.err.contains("redrive dlq list run=1"),
        "{}",
        died.err
    );
    // The same outcome is tolerated on request.
    let tolerated = ["--unthrottled", "--tolerate", "100%", "--json"];
    let died = redriven(&db, &tolerated, "echo broken >&2; exit 65").exits_with(0);
    let line = &died.lines()[0];
    assert_eq!(
        (
            &line["died_alike"],
            &line["tolerated_percent"],
            &line["still_running"]
        ),
        (&12.into(), &100.into(), &0.into())
    );
    let recovered = redriven(&db, &["--force", "--reason", "fixed"], "true").exits_with(0);
    assert!(
        recovered
            .out
            .contains("run 3: 12 sent, 12 recovered, 0 died again\n"),
        "{}",
        recovered.out
    );
}

#[test]
fn a_redrive_without_a_worker_says_what_it_waits_for_and_stops_at_its_limit() {
    let db = TestDatabase::migrated();
    letters(&db, &db.queue("orders"), 3);
    let all = [
        "dlq",
        "redrive",
        "orders",
        "--unthrottled",
        "--max-wait",
        "0s",
        "--yes",
    ];
    let left = waiting(&db, &all).exits_with(1);
    let no_worker = "no live worker of queue `orders` handles kind `order.placed`";
    for part in [
        &format!("run 1: waiting, {no_worker}\n")[..],
        "stopped waiting: no new outcome for 0ms; the jobs wait in their queue",
        "redrive dlq runs watch 1",
    ] {
        assert!(left.err.contains(part), "{part}: {}", left.err);
    }
    assert!(
        left.out
            .contains("run 1: 3 sent, 0 recovered, 0 died again, 3 still running\n"),
        "{}",
        left.out
    );

    redrive(&db, &["breaker", "open", "queue:orders"]).exits_with(0);
    let watch = ["dlq", "runs", "watch", "1", "--max-wait", "0s"];
    let watched = waiting(&db, &watch).exits_with(1);
    assert!(
        watched
            .err
            .contains("run 1: waiting, breaker queue:orders is open ")
            && watched.err.contains(no_worker),
        "{}",
        watched.err
    );
    let shown = redrive(&db, &["dlq", "runs", "show", "1"]).exits_with(0);
    assert!(
        shown.out.contains("waiting for      3 running jobs")
            && shown
                .out
                .contains("halts if more than 10 % of at least 20 outcomes die again"),
        "{}",
        shown.out
    );

    redrive(&db, &["breaker", "close", "queue:orders"]).exits_with(0);
    redrive(&db, &["work", "orders", "--exec", "true", "--drain"]).exits_with(0);
    let watched = waiting(&db, &["dlq", "runs", "watch", "1"]);
    assert_eq!(watched.code, ExitCode::SUCCESS, "{}", watched.err);
    assert!(
        watched
            .out
            .contains("run 1: 3 sent, 3 recovered, 0 died again\n")
    );
    let none = waiting(&db, &["dlq", "runs", "watch", "9"]).exits_with(1);
    assert!(none.err.contains("run 9 does not exist"), "{}", none.err);
}

#[test]
fn a_run_names_the_rate_and_the_canary_that_it_waits_for() {
    let db = TestDatabase::migrated();
    letters(&db, &db.queue("orders"), 6);
    for (options, wait) in [
        (["--canary", "1"], "the outcomes of the canary: 1 job"),
        (["--rate", "1"], "its rate of 1 per second: "),
    ] {
        let detached = [
            &["dlq", "redrive", "orders", "--detach", "--yes"],
            &options[..],
        ]
        .concat();
        redrive(&db, &detached).exits_with(0);
        let id = newest(&db).expect("a run").id;
        let show = || {
            redrive(&db, &["dlq", "runs", "show", &id.to_string()])
                .exits_with(0)
                .out
        };
        assert!(show().contains("driver           none"), "{}", show());
        let open = db.open();
        let mut driver = open.dlq().runs().drive(id).unwrap().expect("no driver");
        driver.step().unwrap();
        let shown = show();
        assert!(
            shown.contains(&format!("waiting for      {wait}")),
            "{shown}"
        );
    }
}
