//! A redrive waits for the outcomes of its jobs, and says for what it waits.

use redrive_tests::prelude::*;

use super::super::with_letters;

/// Runs a command without `--no-wait`.
#[track_caller]
fn waiting(db: &TestDatabase, code: u8, line: &str) -> Ran {
    let line = format!("--database-url {} {line}", db.url());
    ran_alone(&words(&line)).exits_with(code)
}

fn newest(db: &TestDatabase) -> Option<RedriveRun> {
    db.open().dlq().runs().list(1).unwrap().pop()
}

/// Redrives with these options while a command runs the jobs, once all are sent.
fn redriven(db: &TestDatabase, code: u8, options: &str, handler: &str) -> Ran {
    let last = newest(db).map(|run| run.id);
    let redrive_all = format!("dlq redrive orders --yes {options}");
    thread::scope(|scope| {
        let command = scope.spawn(|| waiting(db, code, &redrive_all));
        wait_until("the letters to be sent", SOON, || {
            newest(db).is_some_and(|run| Some(run.id) != last && run.state == RunState::Finished)
        });
        db.run(format!("work orders --exec '{handler}' --drain"));
        command.join().expect("the command")
    })
}

#[test]
fn a_redrive_waits_for_the_outcomes_and_fails_if_too_many_letters_die() {
    let (db, ..) = with_letters(12);
    let broken = "echo broken >&2; exit 65";
    redriven(&db, 1, "--unthrottled", broken)
        .shows("run 1: 12 sent, 0 recovered, 12 died again\n")
        .tells("more than the tolerated 10 % died again")
        .tells("redrive dlq list run=1");
    // The same outcome is tolerated on request.
    redriven(&db, 0, "--unthrottled --tolerate 100% --json", broken)
        .holds(&json!({"died_alike": 12, "tolerated_percent": 100, "still_running": 0}));
    db.run("dlq runs show 2").shows("never halts");
    redriven(&db, 0, "--force --reason fixed", "true")
        .shows("run 3: 12 sent, 12 recovered, 0 died again\n");
}

#[test]
fn a_drain_waits_until_a_run_that_skips_its_last_letters_has_ended() {
    let (db, ..) = with_letters(2);
    db.run("dlq redrive orders --detach --rate 1 --yes");
    db.run("dlq discard orders --reason tests --yes");
    db.run("work orders --exec true --drain");
    let run = newest(&db).expect("the run");
    assert_eq!((run.state, run.skipped), (RunState::Finished, 2));
    db.run("dlq runs show 1 --letters")
        .shows("skipped: the letter is not open");
}

#[test]
fn a_redrive_without_a_worker_says_what_it_waits_for_and_stops_at_its_limit() {
    let (db, ..) = with_letters(3);
    let no_worker = "no live worker of queue `orders` handles kind `order.placed`";
    let redrive = "dlq redrive orders --unthrottled --max-wait 0s --yes";
    waiting(&db, 1, redrive)
        .tells(format!("3 still running; {no_worker}\n"))
        .tells("stopped waiting: no new outcome for 0s; the jobs wait in their queue")
        .tells("redrive dlq runs watch 1")
        .shows("run 1: 3 sent, 0 recovered, 0 died again, 3 still running\n");

    db.run("breaker open queue:orders");
    waiting(&db, 1, "dlq runs watch 1 --max-wait 0s")
        .tells("3 still running; breaker queue:orders is open ")
        .tells(no_worker);
    db.run("dlq runs show 1")
        .shows("3 still running\n")
        .shows("halts if more than 10 % of at least 20 outcomes die again");

    db.run("breaker close queue:orders");
    db.run("work orders --exec true --drain");
    waiting(&db, 0, "dlq runs watch 1").shows("run 1: 3 sent, 3 recovered, 0 died again\n");
    waiting(&db, 1, "dlq runs watch 9").tells("run 9 does not exist");
}
