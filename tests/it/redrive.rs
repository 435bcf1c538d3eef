//! Redrive, discard, prune: what operators do with letters, also two of them at once.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use redrive::{
    Act, Failure, Job, JobId, LetterState, Letters, NewJob, Place, Queue, Reason, RedriveOptions,
    Skip, Worker,
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
        (vec![], ids.iter().map(|id| (*id, Skip::NotOpen)).collect()),
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
        [(id, Skip::Quarantined)]
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
    assert_eq!(
        redriven.skipped,
        [
            (ids[0], Skip::NotOpen),
            (ids[1], Skip::NotOpen),
            (live, Skip::Gone),
            (unknown, Skip::Gone)
        ]
    );
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

/// The letters that the audit says an act changed, and how many rows it has of it.
fn audited(test: &TestDatabase, verb: &str) -> (i64, i64) {
    let asked =
        "SELECT coalesce(sum(letters), 0)::bigint, count(*) FROM redrive.audit WHERE verb = $1";
    let row = test.client().query_one(asked, &[&verb]).unwrap();
    (row.get(0), row.get(1))
}

#[test]
fn every_batch_is_audited_with_who_and_why() {
    let test = TestDatabase::migrated();
    let queue = test.queue("orders");
    let db = queue.database();
    letters(&queue, 1200);
    let act = Act::new().person("maria@ops-1").why("the gateway is fixed");
    let which = Letters::queue("orders").limit(1100);
    assert_eq!(db.redrive(&which, &act).unwrap().redriven.len(), 1100);
    assert_eq!(audited(&test, "redrive"), (1100, 3));
    db.discard(&Letters::all(), &act).unwrap();
    assert_eq!(audited(&test, "discard"), (100, 1));
    let asked = "SELECT DISTINCT person, why, role, filter ->> 'queue' FROM redrive.audit WHERE verb = 'redrive'";
    let row = test.client().query_one(asked, &[]).unwrap();
    let told: (&str, &str, &str, &str) = (row.get(0), row.get(1), row.get(2), row.get(3));
    assert_eq!(
        told,
        ("maria@ops-1", "the gateway is fixed", "postgres", "orders")
    );
    // What changes nothing is no act.
    db.redrive(&Letters::queue("nowhere"), &act).unwrap();
    assert_eq!(audited(&test, "redrive").1, 3);
}

#[test]
fn letters_go_to_another_queue_with_other_options() {
    let test = TestDatabase::migrated();
    let queue = test.queue("orders");
    let db = queue.database();
    let id = letters(&queue, 1)[0];
    let slow = test.queue("slow");
    let worker = worker(&slow)
        .handle(|_: &Job<Order>| Err(Failure::reject("broken")))
        .start()
        .unwrap();
    let options = RedriveOptions::new()
        .to_queue("slow")
        .priority(-7)
        .max_attempts(2);
    let done = db
        .redrive_with(&Letters::ids([id]), &options, &Act::new())
        .unwrap();
    assert_eq!((done.redriven, done.unserved), (vec![id], vec![]));
    drained(&slow);
    stop(worker);
    let letter = db.letter(id).unwrap().expect("dead again");
    assert_eq!(
        (&*letter.queue, letter.priority, letter.max_attempts),
        ("slow", -7, 2)
    );
    // The queue is in the fingerprint, and yet it is the same failure.
    let alike = "SELECT alike FROM redrive.dead_letters WHERE id = $1";
    let row = test.client().query_one(alike, &[&id.get()]).unwrap();
    assert_eq!(row.get::<_, i16>(0), 1);
    for wrong in [
        RedriveOptions::new().to_queue(" "),
        RedriveOptions::new().priority(1001),
        RedriveOptions::new().max_attempts(0),
        RedriveOptions::new().force(),
    ] {
        let refused = db.redrive_with(&Letters::all(), &wrong, &Act::new());
        assert!(refused.expect_err("wrong").is_invalid(), "{wrong:?}");
    }
}

#[test]
fn letters_that_nobody_would_take_are_told() {
    let test = TestDatabase::migrated();
    let queue = test.queue("orders");
    let db = queue.database();
    letters(&queue, 3);
    let preview = |options: &RedriveOptions| {
        let preview = db.preview_redrive(&Letters::all(), options).unwrap();
        assert_eq!((preview.letters(), preview.groups.len()), (3, 1));
        preview
            .unserved
            .iter()
            .map(|to| (to.queue.clone(), to.kind.clone(), to.letters))
            .collect::<Vec<_>>()
    };
    let here = RedriveOptions::new();
    let there = RedriveOptions::new().to_queue("nowhere");
    let waiting = |queue: &str| vec![(queue.to_owned(), "order".to_owned(), 3)];
    assert_eq!(preview(&here), waiting("orders"));
    let other = worker(&queue)
        .handle_kind("other", |_| Ok(()))
        .start()
        .unwrap();
    assert_eq!(preview(&here), waiting("orders"), "it takes another kind");
    let any = worker(&queue).handle_any(|_| Ok(())).start().unwrap();
    assert_eq!(preview(&here), []);
    assert_eq!(preview(&there), waiting("nowhere"));
    stop(other);
    stop(any);
}

#[test]
fn only_force_with_a_reason_moves_a_quarantined_letter() {
    let test = TestDatabase::migrated();
    let queue = test.queue("orders");
    let db = queue.database();
    let (worker, fixed) = fixable(&queue);
    let id = queue
        .add(NewJob::new(&Order { number: 1 }).unwrap().max_attempts(1))
        .unwrap();
    drained(&queue);
    for _ in 0..3 {
        db.redrive(&Letters::ids([id]), &Act::new()).unwrap();
        drained(&queue);
    }
    let state = || db.letter(id).unwrap().expect("a letter").state;
    assert_eq!(state(), LetterState::Quarantined);
    let force = RedriveOptions::new().force();
    let forced = |act: &Act| db.redrive_with(&Letters::ids([id]), &force, act);
    let refused = forced(&Act::new()).expect_err("no reason");
    assert!(refused.to_string().contains("needs a reason"), "{refused}");
    // It is one more try and no pardon.
    let act = Act::new().why("the supplier says it works");
    assert_eq!(forced(&act).unwrap().redriven, [id]);
    drained(&queue);
    assert_eq!(state(), LetterState::Quarantined);
    fixed.store(true, Ordering::SeqCst);
    assert_eq!(forced(&act).unwrap().redriven, [id]);
    drained(&queue);
    stop(worker);
    assert_eq!(state(), LetterState::Recovered);
    let asked = "SELECT count(*) FILTER (WHERE e ->> 'event' = 'redriven'), \
                 count(*) FILTER (WHERE e ->> 'event' = 'forced' AND e ->> 'why' LIKE 'the supplier%') \
                 FROM redrive.dead_letters, jsonb_array_elements(events) e";
    let row = test.client().query_one(asked, &[]).unwrap();
    assert_eq!((row.get::<_, i64>(0), row.get::<_, i64>(1)), (3, 2));
}

#[test]
fn sql_redrives_and_discards_in_the_callers_transaction() {
    let test = TestDatabase::migrated();
    let queue = test.queue("orders");
    let ids = letters(&queue, 5);
    let mut client = test.client();
    let redrive = "SELECT redrive.redrive('{\"queue\": \"orders\"}', 'fixed', 'maria', most => 3)";
    let mut transaction = client.transaction().unwrap();
    assert_eq!(
        transaction
            .query_one(redrive, &[])
            .unwrap()
            .get::<_, i64>(0),
        3
    );
    transaction.rollback().unwrap();
    assert_eq!(audited(&test, "redrive"), (0, 0));
    assert!(live(&test).is_empty());
    client.query_one(redrive, &[]).unwrap();
    assert_eq!(audited(&test, "redrive"), (3, 1));
    assert_eq!(
        live(&test).into_keys().collect::<Vec<_>>(),
        ids[..3].iter().map(|id| id.get()).collect::<Vec<_>>()
    );
    let discard = "SELECT redrive.discard('{\"state\": \"open\"}', 'sold out')";
    assert_eq!(client.query_one(discard, &[]).unwrap().get::<_, i64>(0), 2);
    assert_eq!(audited(&test, "discard"), (2, 1));
    for (wrong, why) in [
        ("SELECT redrive.discard('{}', ' ')", "needs a reason"),
        ("SELECT redrive.discard('{}', NULL)", "needs a reason"),
        (
            "SELECT redrive.redrive('{}', force => true)",
            "needs a reason",
        ),
        (
            "SELECT redrive.redrive('{}', priority => 1001)",
            "priority 1001",
        ),
        (
            "SELECT redrive.redrive('{}', max_attempts => 0)",
            "max_attempts 0",
        ),
        (
            "SELECT redrive.redrive('{}', to_queue => ' x')",
            "queue name",
        ),
        (
            "SELECT redrive.redrive('{\"quue\": 1}')",
            "quue is not a key",
        ),
        ("SELECT redrive.redrive(NULL)", "a filter is a JSON object"),
        ("SELECT redrive.create_run('{}', rate => 0)", "the rate 0"),
        (
            "SELECT redrive.create_run('{}', canary => -1)",
            "the canary -1",
        ),
        ("SELECT redrive.change_run(1, 'stop')", "stop is not pause"),
    ] {
        let refused = client.query(wrong, &[]).expect_err(wrong);
        let told = refused.as_db_error().expect("the server's words").message();
        assert!(told.contains(why), "{wrong}: {told}");
    }
}
