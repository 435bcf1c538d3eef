//! Redrives into a paused queue: accepted, and their jobs wait.

use redrive::dlq::LetterFilter;
use redrive::dlq::runs::{DriveStatus, Rate, RunOptions, RunState};
use redrive_tests::{finish, informed};

use super::*;

#[test]
fn a_canary_waits_for_the_end_of_the_pause_and_does_not_fail() {
    let (test, queue, _) = TestDatabase::with_letters(30);
    let db = queue.database();
    pause(&queue, PauseEnd::Resumed);
    let runs = Ledger::default();
    let worker = runs.worker(&queue);
    let options = RunOptions::new().rate(Rate::Unthrottled).canary(2);
    let filter = LetterFilter::new().queue("orders");
    let (created, mut driver) = db
        .dlq()
        .runs()
        .start(&filter, &options, &maria())
        .unwrap()
        .expect("letters");
    let run = || db.dlq().runs().get(created.id).unwrap().expect("the run");
    for _ in 0..20 {
        assert_eq!(driver.step().unwrap().status, DriveStatus::Running);
    }
    informed(&test, &[&worker]);
    let waiting = run();
    assert_eq!((waiting.state, waiting.sent), (RunState::Running, 2));
    assert_eq!(waiting.died(), 0);
    let blocked = db.dlq().runs().blocked(created.id).unwrap();
    assert_eq!(blocked.gated.len(), 1);
    assert_eq!(
        (&blocked.gated[0].breaker, blocked.gated[0].letters),
        (&None, 2)
    );
    runs.allow();
    resume(&queue);
    wait_until("the run to finish", SOON, || {
        driver.step().unwrap().status != DriveStatus::Running
    });
    finish(&queue, worker);
    wait_until("all outcomes to be counted", SOON, || run().recovered == 30);
    assert!(
        db.dlq()
            .runs()
            .blocked(created.id)
            .unwrap()
            .gated
            .is_empty()
    );
}
