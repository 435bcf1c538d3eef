//! Redrive runs in chunks: a driver with several connections, its fence and its death.

use redrive_tests::prelude::*;

use super::{adds_up, all_are_live_once, bury, change, driver, expire, start, unthrottled};

/// Three chunks, the last one short.
const LETTERS: i64 = 12_000;
const STEP: &str = "SELECT status, coalesce(sent_now, 0) AS sent
    FROM redrive.drive_run($1, $2, 10000, $3)";

fn the_run(test: &TestDatabase) -> RedriveRun {
    let mut runs = test.open().dlq().runs().list(1).unwrap();
    runs.pop().expect("the run")
}

/// Returns the run and its driver.
fn driver_of(client: &mut Client) -> (i64, Uuid) {
    let asked = "SELECT id, driver FROM redrive.redrive_runs";
    client.row(asked, &[])
}

/// Runs one step of a driver.
fn step(open: &mut impl GenericClient, who: (i64, Uuid), most: i64) -> (String, i64) {
    open.row(STEP, &[&who.0, &who.1, &most])
}

fn finish(driver: &mut RunDriver) {
    wait_until("the run to end", SOON, || {
        driver.step().unwrap() == DriveStatus::Ended(RunState::Finished)
    });
}

/// Checks that the run has sent each letter once, and has no chunk left.
#[track_caller]
fn all_are_sent(test: &TestDatabase) {
    all_are_live_once(test, LETTERS);
    let run = the_run(test);
    adds_up(test, run.id);
    assert_eq!((run.state, run.skipped), (RunState::Finished, 0));
    assert_eq!(run.sent, LETTERS.unsigned_abs());
    assert_eq!(test.count("run_chunks"), 0);
}

#[test]
fn concurrent_steps_lock_different_chunks_and_do_not_wait() {
    let test = TestDatabase::migrated();
    bury(&test, LETTERS);
    drop(start(&test, &unthrottled()));
    let (mut one, mut other, mut third) = (test.client(), test.client(), test.client());
    let who = driver_of(&mut one);
    let mut first = one.transaction().unwrap();
    let mut second = other.transaction().unwrap();
    assert_eq!(step(&mut first, who, 5000), ("sent".to_owned(), 5000));
    assert_eq!(step(&mut second, who, 1000), ("sent".to_owned(), 1000));
    let mut last = third.transaction().unwrap();
    assert_eq!(step(&mut last, who, 5000), ("sent".to_owned(), 2000));
    let busy = step(&mut test.client(), who, 5000);
    assert_eq!(busy, ("busy".to_owned(), 0));
    // One step rolls back: another step sends its letters.
    first.rollback().unwrap();
    second.commit().unwrap();
    last.commit().unwrap();
    let run = the_run(&test);
    assert_eq!((run.tried, run.sent, run.still_running), (3000, 3000, 3000));
    expire(&test);
    let mut driver = driver(&test, run.id);
    finish(&mut driver);
    all_are_sent(&test);
}

#[test]
fn a_pause_waits_for_running_steps_and_rejects_the_next() {
    let test = TestDatabase::migrated();
    bury(&test, LETTERS);
    drop(start(&test, &unthrottled()));
    let (mut one, mut other) = (test.client(), test.client());
    let who = driver_of(&mut one);
    let mut first = one.transaction().unwrap();
    assert_eq!(step(&mut first, who, 1000), ("sent".to_owned(), 1000));
    let run = the_run(&test).id;
    let pause = || change(&test, RunAction::Pause, run).became;
    let became = held_up(&test, pause, || first.commit().unwrap());
    assert_eq!(became, RunState::Paused);
    assert_eq!(step(&mut other, who, 1000), ("paused".to_owned(), 0));
    assert_eq!(the_run(&test).sent, 1000);

    change(&test, RunAction::Resume, run);
    let mut driver = driver(&test, run);
    assert_eq!(step(&mut other, who, 1000), ("lost".to_owned(), 0));
    finish(&mut driver);
    all_are_sent(&test);
}

#[test]
fn a_letter_that_a_cancelled_run_did_not_try_is_no_fault() {
    let test = TestDatabase::migrated();
    bury(&test, LETTERS);
    drop(start(&test, &unthrottled()));
    let (mut one, mut other) = (test.client(), test.client());
    let who = driver_of(&mut one);
    let mut first = one.transaction().unwrap();
    let sent = ("sent".to_owned(), 1000);
    assert_eq!(step(&mut first, who, 1000), sent);
    // It goes to the second chunk, and the next one back to the first.
    assert_eq!(step(&mut other, who, 1000), sent);
    first.commit().unwrap();
    assert_eq!(step(&mut other, who, 1000), sent);
    let run = the_run(&test).id;
    change(&test, RunAction::Cancel, run);
    assert_eq!(test.open().admin().faults().unwrap(), []);
    assert_eq!((the_run(&test).tried, the_run(&test).sent), (3000, 3000));
}
