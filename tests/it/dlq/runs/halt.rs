//! Runs without a canary halt when too many letters die again.

use redrive_tests::prelude::*;

use super::{
    adds_up, bury, change, drive, fixable, judged, run, sends, slowly, start, unthrottled,
};

/// Takes steps until this many letters were sent. Each step is a second late, and so sends two.
fn send(test: &TestDatabase, driver: &mut RunDriver, letters: u64) {
    let late = "UPDATE redrive.redrive_runs SET next_at = clock_timestamp() - interval '1 second'";
    let mut client = test.client();
    loop {
        client.sql(late);
        if sends(test, driver) >= letters {
            return;
        }
    }
}

/// Runs the jobs of the run with a worker that rejects them.
fn die(test: &TestDatabase, id: RunId) {
    let (worker, _) = fixable(test);
    drained(&test.queue("orders"));
    judged(test, id);
    stop(worker);
}

#[test]
fn a_run_without_a_canary_halts_when_too_many_letters_die() {
    let (test, _, _) = TestDatabase::with_letters(60);
    let mut driver = start(&test, &slowly());
    let id = driver.run();
    send(&test, &mut driver, 20);
    die(&test, id);
    let before = run(&test, id);
    let end = drive(&mut driver);
    assert_eq!(end, DriveStatus::Ended(RunState::Halted));
    let halted = run(&test, id);
    // The step that saw the deaths may send the letters that are due.
    assert!(halted.sent <= before.sent + 2 && halted.has_too_many_deaths());
    let why = halted.halted_because.expect("a sentence");
    let died = before.died_alike;
    assert_eq!(why, format!("{died} of the last {died} letters died again"));
    adds_up(&test, id);
}

#[test]
fn an_unthrottled_run_halts_and_keeps_the_letters_of_its_chunks_open() {
    let test = TestDatabase::migrated();
    bury(&test, 12_000);
    let mut driver = start(&test, &unthrottled());
    let id = driver.run();
    let step = "SELECT d.status FROM redrive.redrive_runs r, \
                redrive.drive_run(r.id, r.driver, 10000, 50) d";
    let status: String = test.client().ask(step, &[]);
    assert_eq!(status, "sent");
    die(&test, id);
    // The driver sends one batch more, sees the deaths, and halts.
    let end = drive(&mut driver);
    assert_eq!(end, DriveStatus::Ended(RunState::Halted));
    let halted = run(&test, id);
    assert_eq!(halted.died_alike + halted.died_differently, 50);
    assert!(halted.sent <= 2050, "{halted:?}");
    adds_up(&test, id);

    change(&test, RunAction::Cancel, id);
    assert_eq!(run(&test, id).state, RunState::Cancelled);
    let open = letters_in(&test.open(), "orders", LetterState::Open) as u64;
    assert_eq!(open, 12_000 - halted.sent + 50);
}
