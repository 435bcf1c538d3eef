//! The effect of a redrive on letters and their jobs.

use std::sync::atomic::Ordering;

use redrive::admin::JobState;
use redrive::dlq::{DeathCause, LetterFilter, LetterState, Skip};
use redrive::{NewJob, Operator};
use redrive_tests::{Order, TestDatabase, counted, drained, finish, letters_in, stats, stop};

use super::fixable;

#[test]
fn a_redriven_job_keeps_its_id_and_history_and_gets_fresh_attempts() {
    let (_test, queue) = TestDatabase::with_orders();
    let db = queue.database();
    let (worker, _) = fixable(&queue);
    let new = NewJob::new(&Order { number: 1 })
        .unwrap()
        .priority(4)
        .max_attempts(2);
    let id = queue.enqueue_job(new).unwrap().id();
    finish(&queue, worker);
    let letter = db.dlq().get(id).unwrap().expect("a letter");

    let redriven = db
        .dlq()
        .redrive(&LetterFilter::new().ids([id]), &Operator::default())
        .unwrap();
    assert_eq!((redriven.redriven, redriven.skipped), (vec![id], vec![]));
    let job = db.admin().job(id).unwrap().expect("live again");
    assert_eq!(
        (job.state, job.priority, job.max_attempts),
        (JobState::Ready, 4, 2)
    );
    assert_eq!((job.attempts, job.generation, job.history.len()), (0, 1, 2));
    assert_eq!(job.payload.get(), letter.payload.expect("JSON").get());
    assert_eq!(job.enqueued_at, letter.enqueued_at);
    let letter = db.dlq().get(id).unwrap().expect("the letter stays");
    assert_eq!(letter.state, LetterState::Redriving);
}

#[test]
fn a_redriven_job_that_completes_recovers_its_letter() {
    let (_test, queue) = TestDatabase::with_orders();
    let (worker, fixed) = fixable(&queue);
    let ids = queue.enqueue_many(&Order::up_to(20)).unwrap();
    drained(&queue);
    fixed.store(true, Ordering::SeqCst);
    let redriven = queue
        .database()
        .dlq()
        .redrive(&LetterFilter::new().queue("orders"), &Operator::default())
        .unwrap();
    assert_eq!(redriven.redriven, ids, "the oldest death first");
    drained(&queue);
    counted(&worker, "all done", |counts| counts.done == 20);
    stop(worker);
    assert_eq!(
        letters_in(queue.database(), "orders", LetterState::Recovered),
        20
    );
    let stats = stats(queue.database(), "orders").expect("letters");
    assert_eq!(
        (stats.open, stats.redriving, stats.recovered, stats.ready),
        (0, 0, 20, 0)
    );
    let again = queue
        .database()
        .dlq()
        .redrive(&LetterFilter::new().ids(ids.clone()), &Operator::default())
        .unwrap();
    assert_eq!(
        (again.redriven, again.skipped),
        (vec![], ids.iter().map(|id| (*id, Skip::NotOpen)).collect()),
        "a recovered letter is closed"
    );
}

#[test]
fn a_redriven_job_that_dies_reopens_its_letter_in_the_next_generation() {
    let (_test, queue) = TestDatabase::with_orders();
    let db = queue.database();
    let (worker, _) = fixable(&queue);
    let id = queue
        .enqueue_job(NewJob::new(&Order { number: 1 }).unwrap().max_attempts(2))
        .unwrap()
        .id();
    drained(&queue);
    let first = db.dlq().get(id).unwrap().expect("a letter");
    assert_eq!((first.generation, first.history.len()), (0, 2));
    for generation in 1..=3_u32 {
        assert_eq!(
            db.dlq()
                .redrive(&LetterFilter::new().ids([id]), &Operator::default())
                .unwrap()
                .redriven,
            [id]
        );
        drained(&queue);
        let letter = db.dlq().get(id).unwrap().expect("the same letter");
        assert_eq!(
            (letter.state, letter.generation),
            (
                if generation == 3 {
                    LetterState::Quarantined
                } else {
                    LetterState::Open
                },
                generation
            )
        );
        assert_eq!((letter.attempts, letter.cause), (2, DeathCause::Exhausted));
        let made: Vec<(u32, u32)> = letter
            .history
            .iter()
            .map(|attempt| (attempt.generation, attempt.attempt))
            .collect();
        let expected: Vec<(u32, u32)> = (0..=generation).flat_map(|g| [(g, 1), (g, 2)]).collect();
        assert_eq!(made, expected);
        assert_eq!(letter.enqueued_at, first.enqueued_at);
        assert!(letter.died_at > first.died_at);
    }
    stop(worker);
    assert_eq!(
        letters_in(db, "orders", LetterState::Quarantined),
        1,
        "one letter, not one a death"
    );
    // Three identical deaths: a fourth attempt is useless.
    assert_eq!(
        db.dlq()
            .redrive(&LetterFilter::new().ids([id]), &Operator::default())
            .unwrap()
            .skipped,
        [(id, Skip::Quarantined)]
    );
}
