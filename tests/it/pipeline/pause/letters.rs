//! Redrives into a paused queue: accepted, and their jobs wait.

use super::*;

#[test]
fn a_canary_waits_for_the_end_of_the_pause_and_does_not_fail() {
    let (test, queue, _) = TestDatabase::with_letters(30);
    pause(&queue, PauseEnd::Resumed);
    let worker = willing(&queue);
    let options = RunOptions::new().unthrottled().canary(2);
    let db = queue.database();
    let runs = db.dlq().runs();
    let started = runs.start(&of_orders(), &options, &maria()).unwrap();
    let (created, mut driver) = started.expect("letters");
    let run = || runs.get(created.id).unwrap().expect("the run");
    for _ in 0..20 {
        let status = driver.step().unwrap();
        assert!(matches!(status, DriveStatus::Running(_)));
    }
    informed(&test, &[&worker]);
    let waiting = run();
    assert_eq!((waiting.state, waiting.sent), (RunState::Running, 2));
    assert_eq!(waiting.died(), 0);
    let blocked = || {
        db.dlq()
            .blocked(&LetterFilter::new().run(created.id), None)
            .unwrap()
    };
    let found = blocked();
    assert_eq!((found.len(), found[0].letters), (1, 2));
    assert!(found[0].since.is_some() && found[0].breaker.is_none());
    resume(&queue);
    wait_until("the run to finish", SOON, || {
        !matches!(driver.step().unwrap(), DriveStatus::Running(_))
    });
    finish(&queue, worker);
    wait_until("all outcomes to be counted", SOON, || run().recovered == 30);
    assert!(blocked().is_empty());
}
