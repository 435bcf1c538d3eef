//! The canary of a run. `paced` has the ramp that follows it.

use redrive_tests::prelude::*;

use super::{adds_up, audited, change, drive, fixable, judged, run, start, unthrottled};

#[test]
fn a_canary_that_dies_halts_the_run_and_the_other_letters_stay_open() {
    let (test, queue, _) = TestDatabase::with_letters(100);
    let (worker, fixed) = fixable(&test);
    let mut driver = start(&test, &unthrottled().canary(5));
    let end = drive(&mut driver);
    assert_eq!(end, DriveStatus::Ended(RunState::Halted));
    drained(&queue);
    let halted = run(&test, driver.run());
    assert_eq!((halted.sent, halted.died_alike, halted.tried), (5, 5, 5));
    let why = halted.halted_because.expect("a sentence");
    has(why, "of the 5 letters of the canary died again");
    assert_eq!(in_state(&queue, LetterState::Open), 100);
    adds_up(&test, halted.id);

    // No worker resumes it. An operator does when the handler is fixed.
    let db = queue.database();
    assert!(db.dlq().runs().drive(halted.id).unwrap().is_none());
    fixed.store(true, Ordering::SeqCst);
    let resumed = change(&test, RunAction::Resume, halted.id);
    assert_eq!(resumed.was, RunState::Halted);
    assert_eq!(resumed.became, RunState::Running);
    if let Some(mut driver) = db.dlq().runs().drive(halted.id).unwrap() {
        drive(&mut driver);
    }
    wait_until("the run to finish", SOON, || {
        run(&test, halted.id).state == RunState::Finished
    });
    drained(&queue);
    judged(&test, halted.id);
    stop(worker);
    let finished = run(&test, halted.id);
    assert_eq!(finished.sent, 100);
    assert_eq!(finished.recovered, 95);
    assert_eq!(finished.died_alike, 5);
    adds_up(&test, finished.id);
    assert_eq!(audited(&test), 100);
}
