//! Redrive, discard, prune: what operators do with letters, also two of them at once.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use redrive::{
    Act, Failure, Job, JobId, LetterState, Letters, NewJob, Place, Queue, Reason, Worker,
};
use redrive_tests::{
    Order, TestDatabase, counted, drained, letters, letters_in, stats, stop, worker,
};

/// A worker whose handler succeeds once it is fixed.
fn fixable(queue: &Queue) -> (Worker, Arc<AtomicBool>) {
    let fixed = Arc::new(AtomicBool::new(false));
    let worker = worker(queue)
        .handle({
            let fixed = Arc::clone(&fixed);
            move |_: &Job<Order>| {
                if fixed.load(Ordering::SeqCst) {
                    Ok(())
                } else {
                    Err(Failure::retry("still broken"))
                }
            }
        })
        .start()
        .unwrap();
    (worker, fixed)
}

#[test]
fn a_redriven_job_has_its_id_and_its_history_and_a_fresh_budget() {
    let test = TestDatabase::migrated();
    let queue = test.queue("orders");
    let db = queue.database();
    let (worker, _) = fixable(&queue);
    let new = NewJob::new(&Order { number: 1 })
        .unwrap()
        .priority(4)
        .max_attempts(2);
    let id = queue.add(new).unwrap();
    drained(&queue);
    stop(worker);
    let letter = db.letter(id).unwrap().expect("a letter");

    let redriven = db.redrive(&Letters::ids([id]), &Act::new()).unwrap();
    assert_eq!((redriven.redriven, redriven.skipped), (vec![id], vec![]));
    let job = db.job(id).unwrap().expect("live again");
    assert_eq!(
        (job.place, job.priority, job.max_attempts),
        (Place::Ready, 4, 2)
    );
    assert_eq!((job.attempts, job.generation, job.history.len()), (0, 1, 2));
    assert_eq!(job.payload.get(), letter.payload.expect("JSON").get());
    assert_eq!(job.enqueued_at, letter.enqueued_at);
    let letter = db.letter(id).unwrap().expect("the letter stays");
    assert_eq!(letter.state, LetterState::Redriving);
}

#[test]
fn a_redriven_job_that_is_done_recovers_its_letter() {
    let test = TestDatabase::migrated();
    let queue = test.queue("orders");
    let (worker, fixed) = fixable(&queue);
    let ids = queue.enqueue_many(&Order::up_to(20)).unwrap();
    drained(&queue);
    fixed.store(true, Ordering::SeqCst);
    let redriven = queue
        .database()
        .redrive(&Letters::queue("orders"), &Act::new())
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
        .redrive(&Letters::ids(ids.clone()), &Act::new())
        .unwrap();
    assert_eq!(
        (again.redriven, again.skipped),
        (vec![], ids),
        "a recovered letter is closed"
    );
}

#[test]
fn a_redriven_job_that_dies_again_opens_the_same_letter_one_generation_on() {
    let test = TestDatabase::migrated();
    let queue = test.queue("orders");
    let db = queue.database();
    let (worker, _) = fixable(&queue);
    let id = queue
        .add(NewJob::new(&Order { number: 1 }).unwrap().max_attempts(2))
        .unwrap();
    drained(&queue);
    let first = db.letter(id).unwrap().expect("a letter");
    assert_eq!((first.generation, first.history.len()), (0, 2));
    for generation in 1..=3_u32 {
        assert_eq!(
            db.redrive(&Letters::ids([id]), &Act::new())
                .unwrap()
                .redriven,
            [id]
        );
        drained(&queue);
        let letter = db.letter(id).unwrap().expect("the same letter");
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
        assert_eq!((letter.attempts, letter.reason), (2, Reason::Exhausted));
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
    // Three redrives ended alike: a fourth is no use.
    assert_eq!(
        db.redrive(&Letters::ids([id]), &Act::new())
            .unwrap()
            .skipped,
        [id]
    );
}

#[test]
fn ids_that_are_not_open_are_told_as_skipped() {
    let test = TestDatabase::migrated();
    let queue = test.queue("orders");
    let db = queue.database();
    let ids = letters(&queue, 4);
    let live = queue.enqueue(&Order { number: 9 }).unwrap();
    let unknown = JobId::new(1_000_000);
    db.discard(&Letters::ids([ids[0]]), &Act::new().why("a duplicate"))
        .unwrap();
    db.redrive(&Letters::ids([ids[1]]), &Act::new()).unwrap();
    let asked = [ids[0], ids[1], ids[2], live, unknown];
    let redriven = db.redrive(&Letters::ids(asked), &Act::new()).unwrap();
    assert_eq!(redriven.redriven, [ids[2]]);
    assert_eq!(redriven.skipped, [ids[0], ids[1], live, unknown]);
    // A state other than open is never redriven, even when it is asked for.
    for state in [LetterState::Discarded, LetterState::Redriving] {
        assert_eq!(
            db.redrive(&Letters::all().state(state), &Act::new())
                .unwrap()
                .redriven,
            []
        );
    }
}

#[test]
fn the_filter_of_the_list_is_the_filter_of_the_redrive() {
    let test = TestDatabase::migrated();
    let queue = test.queue("orders");
    let other = test.queue("other");
    let db = queue.database();
    let strangers = letters(&other, 3);
    let ids = letters(&queue, 10);
    let limited = db
        .redrive(&Letters::queue("orders").limit(4), &Act::new())
        .unwrap();
    assert_eq!(limited.redriven, ids[..4], "the oldest death first");
    for nothing in [
        Letters::queue("orders").kind("other"),
        Letters::queue("orders").reason(Reason::Timeout),
        Letters::queue("orders").error_class("Nobody"),
        Letters::queue("nowhere"),
        Letters::queue("orders").limit(0),
        Letters::ids([]),
    ] {
        assert_eq!(
            db.redrive(&nothing, &Act::new()).unwrap().redriven,
            [],
            "{nothing:?}"
        );
    }
    let rest = db
        .redrive(
            &Letters::queue("orders")
                .kind("order")
                .reason(Reason::Rejected)
                .error_class("Rejected"),
            &Act::new(),
        )
        .unwrap();
    assert_eq!(rest.redriven, ids[4..]);
    assert_eq!(
        letters_in(db, "other", LetterState::Open),
        strangers.len(),
        "another queue's letters stay"
    );
    assert_eq!(
        db.redrive(&Letters::all(), &Act::new()).unwrap().redriven,
        strangers
    );
    let error = db
        .redrive(&Letters::all().after(ids[0]), &Act::new())
        .expect_err("a page of a list");
    assert!(error.is_invalid());
}

/// Operators who all redrive the same letters at the same moment; answers what each of them did.
fn at_once(test: &TestDatabase, operators: usize, which: &Letters) -> Vec<redrive::Redriven> {
    let start = Arc::new(Barrier::new(operators));
    let threads: Vec<_> = (0..operators)
        .map(|_| {
            let (db, which, start) = (test.open(), which.clone(), Arc::clone(&start));
            thread::spawn(move || {
                start.wait();
                db.redrive(&which, &Act::new()).unwrap()
            })
        })
        .collect();
    threads
        .into_iter()
        .map(|thread| thread.join().expect("an operator"))
        .collect()
}

/// How often each id is live.
fn live(test: &TestDatabase) -> BTreeMap<i64, usize> {
    let mut live = BTreeMap::new();
    for row in test
        .client()
        .query("SELECT id FROM redrive.live_jobs", &[])
        .unwrap()
    {
        *live.entry(row.get(0)).or_default() += 1;
    }
    live
}

#[test]
fn two_operators_at_once_never_make_two_jobs_of_one_letter() {
    two_or_more_operators(2);
}

#[test]
fn eight_operators_at_once_never_make_two_jobs_of_one_letter() {
    two_or_more_operators(8);
}

fn two_or_more_operators(operators: usize) {
    let test = TestDatabase::migrated();
    let queue = test.queue("orders");
    let ids = letters(&queue, 2000);
    let answers = at_once(&test, operators, &Letters::queue("orders"));
    let told: Vec<JobId> = answers
        .iter()
        .flat_map(|answer| answer.redriven.clone())
        .collect();
    let different: BTreeSet<JobId> = told.iter().copied().collect();
    assert_eq!(told.len(), different.len(), "a letter was redriven by two");
    assert_eq!(different, ids.iter().copied().collect(), "the sums add up");
    let live = live(&test);
    assert_eq!(live.len(), 2000);
    assert!(live.values().all(|jobs| *jobs == 1), "an id is live twice");
    let db = queue.database();
    assert_eq!(letters_in(db, "orders", LetterState::Redriving), 2000);
    assert_eq!(letters_in(db, "orders", LetterState::Open), 0);
}

#[test]
fn operators_who_ask_for_the_same_ids_are_told_which_were_theirs() {
    let test = TestDatabase::migrated();
    let queue = test.queue("orders");
    let ids = letters(&queue, 1200);
    let answers = at_once(&test, 4, &Letters::ids(ids.clone()));
    for answer in &answers {
        assert_eq!(
            answer.redriven.len() + answer.skipped.len(),
            1200,
            "every id is accounted for"
        );
    }
    let redriven: usize = answers.iter().map(|answer| answer.redriven.len()).sum();
    assert_eq!(redriven, 1200);
    assert!(live(&test).values().all(|jobs| *jobs == 1));
}

#[test]
fn a_redrive_against_a_discard_leaves_each_letter_one_end() {
    let test = TestDatabase::migrated();
    let queue = test.queue("orders");
    letters(&queue, 2000);
    let start = Arc::new(Barrier::new(2));
    let discarder = thread::spawn({
        let (db, start) = (test.open(), Arc::clone(&start));
        move || {
            start.wait();
            db.discard(&Letters::queue("orders"), &Act::new().why("not wanted"))
                .unwrap()
        }
    });
    let db = test.open();
    start.wait();
    let redriven = db
        .redrive(&Letters::queue("orders"), &Act::new())
        .unwrap()
        .redriven;
    let discarded = discarder.join().expect("the one who discards");
    assert_eq!(redriven.len() + discarded.len(), 2000);
    assert!(redriven.iter().all(|id| !discarded.contains(id)));
    let live = live(&test);
    assert_eq!(live.len(), redriven.len());
    assert!(discarded.iter().all(|id| !live.contains_key(&id.get())));
}

#[test]
fn a_redrive_while_workers_run_loses_nothing() {
    let test = TestDatabase::migrated();
    let queue = test.queue("orders");
    let ids = letters(&queue, 1000);
    let worker = worker(&queue)
        .slots(2)
        .handle(|job: &Job<Order>| {
            if job.payload().number % 10 == 0 {
                Err(Failure::reject("hopeless"))
            } else {
                Ok(())
            }
        })
        .start()
        .unwrap();
    at_once(&test, 2, &Letters::queue("orders").limit(1000));
    // What died again may have been redriven again; what cannot succeed is open in the end.
    drained(&queue);
    let counts = stop(worker).counts;
    assert_eq!((counts.done, counts.lost), (900, 0));
    let stats = stats(queue.database(), "orders").expect("letters");
    assert_eq!((stats.recovered, stats.redriving), (900, 0));
    assert_eq!(stats.open + stats.recovered, ids.len() as u64);
}

#[test]
fn letters_that_die_again_during_a_redrive_are_not_taken_again() {
    let test = TestDatabase::migrated();
    let queue = test.queue("orders");
    // Several batches, so that those of the first are dead again before the last is taken.
    let ids = letters(&queue, 3000);
    let worker = worker(&queue)
        .slots(2)
        .handle(|_: &Job<Order>| Err(Failure::reject("still broken")))
        .start()
        .unwrap();
    let redriven = queue
        .database()
        .redrive(&Letters::queue("orders"), &Act::new())
        .unwrap();
    drained(&queue);
    stop(worker);
    assert_eq!(redriven.redriven.len(), ids.len());
    let again = queue
        .database()
        .letters(&Letters::queue("orders").limit(5000))
        .unwrap();
    assert!(again.iter().all(|letter| letter.generation == 1));
}
