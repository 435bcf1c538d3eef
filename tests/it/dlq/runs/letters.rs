//! Letters that are locked, discarded, pruned or quarantined during a run.

use redrive_tests::prelude::*;

use super::{LONG_AGO, adds_up, drive, live, next_due, run, sends, slowly, start, unthrottled};

#[test]
fn a_run_skips_a_letter_that_another_session_has_locked() {
    let (test, queue, ids) = TestDatabase::with_letters(5);
    let _kept = test.locks(ids[2]);
    let mut driver = start(&test, &unthrottled());
    assert_eq!(drive(&mut driver), DriveStatus::Ended(RunState::Finished));
    let state = run(&test, driver.run());
    assert_eq!((state.sent, state.skipped), (4, 1));
    let skips = queue.database().dlq().runs().skips(driver.run()).unwrap();
    assert_eq!(skips, [(Skip::Locked, 1)]);
    adds_up(&test, driver.run());
}

#[test]
fn a_run_skips_a_letter_that_another_one_has_sent_and_that_died_again() {
    let (test, queue, ids) = TestDatabase::with_letters(2);
    let mut first = start(&test, &unthrottled());
    let mut second = start(&test, &unthrottled());
    assert_eq!(drive(&mut first), DriveStatus::Ended(RunState::Finished));
    work_off(&queue, |_: &Job<Order>| Err(Failure::reject("broken")));
    assert_eq!(drive(&mut second), DriveStatus::Ended(RunState::Finished));
    assert!(ids.iter().all(|id| queue.letter(*id).generation == 1));
    let skips = queue.database().dlq().runs().skips(second.run()).unwrap();
    assert_eq!(skips, [(Skip::DiedAgain, 2)]);
    adds_up(&test, second.run());
}

#[test]
fn an_erased_letter_keeps_no_run_waiting() {
    // One that has not sent all of its letters, and one that has ended.
    for (options, has_ended) in [(slowly(), false), (unthrottled(), true)] {
        let (test, queue, _) = TestDatabase::with_letters(3);
        let mut driver = start(&test, &options);
        next_due(&test, LONG_AGO);
        match has_ended {
            true => assert_eq!(drive(&mut driver), DriveStatus::Ended(RunState::Finished)),
            false => assert_eq!(sends(&test, &mut driver), 2),
        }
        let waiting = live(&test).into_keys().map(JobId::new).take(2);
        let waiting = LetterFilter::new().ids(waiting);
        let db = queue.database();
        db.dlq().erase(&waiting, &maria()).unwrap();
        assert_eq!(db.admin().faults().unwrap(), []);
        let gone = "run_letters WHERE outcome = 'skipped_gone'";
        // A run that has ended forgets its letters.
        assert_eq!(test.count(gone), if has_ended { 0 } else { 2 });
        let run = run(&test, driver.run());
        let counts = (run.sent, run.skipped, run.still_running);
        assert!(!has_ended || counts == (1, 2, 1), "{run:?}");
        no_drift(db);
    }
}
