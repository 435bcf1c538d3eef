//! Replace: an enqueue changes the waiting job that holds its key, and never a running one.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier, Mutex};
use std::thread;
use std::time::Duration;

use redrive::dlq::{LetterFilter, LetterState};
use redrive::{Enqueued, Failure, Job, JobId, Operator, Queue, Replace};
use redrive_tests::{
    Begin, Gate, Hold, Order, TestDatabase, counted, drained, letters_in, scalar, stop, worker,
};

use super::{held, inserted, order};

const HOUR: Duration = Duration::from_hours(1);

/// Returns the number of the waiting order with this id, and whether it is delayed and by how many
/// half hours.
fn waiting(test: &TestDatabase, id: JobId) -> (i64, Option<i64>) {
    let asked = "SELECT (payload ->> 'number')::bigint, NULL::bigint FROM redrive.jobs WHERE id = $1 \
        UNION ALL \
        SELECT (payload ->> 'number')::bigint, \
               round(extract(epoch FROM run_at - clock_timestamp()) / 1800)::bigint \
        FROM redrive.jobs_delayed WHERE id = $1";
    let row = test.client().query_one(asked, &[&id.get()]).unwrap();
    (row.get(0), row.get(1))
}

#[test]
fn a_replacing_enqueue_changes_payload_or_time_or_both_of_the_waiting_job() {
    let (test, queue) = TestDatabase::with_orders();
    // The delays of both in hours, the change, and the number and half hours of the job afterwards.
    for (n, (first, second, change, expected)) in [
        (1, 2, Replace::Payload, (2, Some(2))),
        (1, 2, Replace::Time, (1, Some(4))),
        (1, 2, Replace::Both, (2, Some(4))),
        (0, 0, Replace::Payload, (2, None)),
        (0, 2, Replace::Payload, (2, None)),
        (0, 2, Replace::Time, (1, Some(4))),
        (0, 2, Replace::Both, (2, Some(4))),
        (0, 0, Replace::Both, (2, None)),
        (1, 0, Replace::Time, (1, Some(0))),
    ]
    .into_iter()
    .enumerate()
    {
        let key = n.to_string();
        let id = inserted(
            queue
                .enqueue_job(order(1).unique(&key).delay(HOUR * first).priority(7))
                .unwrap(),
        );
        // The job keeps its priority, whichever the second enqueue has.
        let again = order(2).unique(&key).delay(HOUR * second).replace(change);
        let again = queue.enqueue_job(again).unwrap();
        assert_eq!(again, Enqueued::Replaced(id));
        assert_eq!(waiting(&test, id), expected, "{first} {second} {change:?}");
    }
    let kept = "SELECT count(*) FROM redrive.live_jobs WHERE priority = 7";
    assert_eq!(scalar(&mut test.client(), kept), 9);
    assert_eq!(held(&test).len(), 9);
    let other = redrive::NewJob::new(&Hold {}).unwrap().unique("0");
    let other = queue.enqueue_job(other.replace(Replace::Both)).unwrap();
    assert!(matches!(other, Enqueued::Existing(_)), "of another kind");
}

#[test]
fn a_running_job_is_never_changed() {
    let (_test, queue) = TestDatabase::with_orders();
    let (gate, ran) = (Gate::new(), Arc::new(Mutex::new(Vec::new())));
    let worker = worker(&queue)
        .handle({
            let (gate, ran) = (gate.clone(), Arc::clone(&ran));
            move |job: &Job<Order>| {
                gate.pass();
                ran.lock().unwrap().push((job.id(), job.payload().number));
                Ok(())
            }
        })
        .started();
    let change = |number| {
        let job = order(number).unique("a").replace(Replace::Both);
        queue.enqueue_job(job).unwrap()
    };
    let first = inserted(change(1));
    gate.wait_for(1);
    assert_eq!(change(2), Enqueued::Existing(first));
    gate.open();
    counted(&worker, "the first to be done", |counts| counts.done == 1);
    let second = inserted(change(3));
    counted(&worker, "the second to be done", |counts| counts.done == 2);
    stop(worker);
    assert_eq!(*ran.lock().unwrap(), [(first, 1), (second, 3)]);
}

#[test]
fn an_open_transaction_that_replaces_delays_only_the_replaced_job() {
    let (test, queue) = TestDatabase::with_orders();
    let id = inserted(queue.enqueue_job(order(1).unique("a")).unwrap());
    let mut client = test.client();
    let mut transaction = client.transaction().unwrap();
    let changed = order(2).unique("a").replace(Replace::Payload);
    let changed = queue.enqueue_job_in(&mut transaction, &changed).unwrap();
    assert_eq!(changed, Enqueued::Replaced(id));
    let ran = Arc::new(Mutex::new(Vec::new()));
    let worker = worker(&queue)
        .handle({
            let ran = Arc::clone(&ran);
            move |job: &Job<Order>| {
                ran.lock().unwrap().push(job.payload().number);
                Ok(())
            }
        })
        .started();
    queue.enqueue_job(order(8)).unwrap();
    queue.enqueue_job(order(9).unique("b")).unwrap();
    counted(&worker, "the others to be done", |counts| counts.done == 2);
    transaction.commit().unwrap();
    counted(&worker, "the replaced job to be done", |counts| {
        counts.done == 3
    });
    stop(worker);
    assert_eq!(*ran.lock().unwrap(), [8, 9, 2]);
    assert_eq!(held(&test), []);
}

#[test]
fn of_several_jobs_of_one_call_the_first_one_decides() {
    let (test, queue) = TestDatabase::with_orders();
    let jobs = [1, 2].map(|number| order(number).unique("a").replace(Replace::Payload));
    let stored = queue.enqueue_jobs(&jobs).unwrap();
    let id = inserted(stored[0]);
    assert_eq!(stored[1], Enqueued::Existing(id));
    assert_eq!(waiting(&test, id), (1, None));
    let jobs = [3, 4].map(|number| order(number).unique("a").replace(Replace::Payload));
    let stored = queue.enqueue_jobs(&jobs).unwrap();
    assert_eq!(stored, [Enqueued::Replaced(id), Enqueued::Existing(id)]);
    assert_eq!(waiting(&test, id), (3, None));
}

#[test]
fn the_sql_function_replaces_and_rejects_an_unknown_change() {
    let (test, mut client) = TestDatabase::with_client();
    let mut call = |more: &str| {
        let call =
            format!("SELECT redrive.enqueue('orders', 'order', '{{\"number\": 2}}', {more})");
        client.query_one(&call, &[]).map(|row| row.get::<_, i64>(0))
    };
    let first = call("unique_key => 'a', delay => '1 hour'").unwrap();
    let replaced = call("unique_key => 'a', delay => '2 hours', replace => 'time'").unwrap();
    assert_eq!(replaced, first);
    assert_eq!(waiting(&test, JobId::new(first)), (2, Some(4)));
    for (bad, why) in [
        (
            "unique_key => 'a', replace => 'all'",
            "redrive: replace is all",
        ),
        (
            "replace => 'both'",
            "redrive: until_started, replace and unique_window need",
        ),
        (
            "until_started => true",
            "redrive: until_started, replace and unique_window need",
        ),
    ] {
        let error = call(bad).expect_err(why);
        let said = error.as_db_error().expect("of the server").message();
        assert!(said.starts_with(why), "{said}");
    }
}

/// The key and the number of an enqueue, and its answer.
type Answer = (String, i64, Enqueued);

/// Enqueues 60 orders over four keys, of which two are free once their jobs start.
fn enqueue_all(queue: &Queue, enqueuer: i64) -> Vec<Answer> {
    let changes = [
        Replace::Both,
        Replace::Payload,
        Replace::Both,
        Replace::Time,
    ];
    (0..60)
        .map(|n| {
            let (number, key) = (1000 * enqueuer + n, n % 4);
            let job = order(number)
                .unique(key.to_string())
                .replace(changes[usize::try_from(n / 4 % 4).unwrap()])
                .delay(Duration::from_millis(u64::try_from(n % 3).unwrap()));
            let job = match key {
                0 | 1 => job,
                _ => job.until_started(),
            };
            (key.to_string(), number, queue.enqueue_job(job).unwrap())
        })
        .collect()
}

#[test]
fn eight_enqueuers_a_worker_and_a_redrive_lose_and_repeat_no_job() {
    let (test, queue) = TestDatabase::with_orders();
    let db = queue.database();
    // The numbers that each job ran with. Some orders fail for good before their first redrive.
    let ran: Arc<Mutex<HashMap<JobId, Vec<i64>>>> = Arc::default();
    let worker = worker(&queue)
        .slots(4)
        .handle({
            let ran = Arc::clone(&ran);
            move |job: &Job<Order>| {
                let number = job.payload().number;
                if number % 7 == 0 && job.generation() == 0 {
                    return Err(Failure::reject("broken"));
                }
                ran.lock()
                    .unwrap()
                    .entry(job.id())
                    .or_default()
                    .push(number);
                Ok(())
            }
        })
        .started();
    let (start, over) = (Arc::new(Barrier::new(9)), Arc::new(AtomicBool::new(false)));
    let redriver = thread::spawn({
        let (db, start, over) = (test.open(), Arc::clone(&start), Arc::clone(&over));
        move || {
            start.wait();
            while !over.load(Ordering::Relaxed) {
                let of_queue = LetterFilter::new().queue("orders");
                db.dlq().redrive(&of_queue, &Operator::default()).unwrap();
            }
        }
    });
    let enqueuers: Vec<_> = (0..8)
        .map(|enqueuer| {
            let (queue, start) = (test.queue("orders"), Arc::clone(&start));
            thread::spawn(move || {
                start.wait();
                enqueue_all(&queue, enqueuer)
            })
        })
        .collect();
    let answers: Vec<Answer> = enqueuers
        .into_iter()
        .flat_map(|enqueuer| enqueuer.join().expect("an enqueuer"))
        .collect();
    over.store(true, Ordering::Relaxed);
    redriver.join().expect("the redriver");
    // Each round frees at least one of the keys that the letters wait for.
    drained(&queue);
    while letters_in(db, "orders", LetterState::Open) > 0 {
        let of_queue = LetterFilter::new().queue("orders");
        db.dlq().redrive(&of_queue, &Operator::default()).unwrap();
        drained(&queue);
    }
    assert_eq!(stop(worker).stats.lost, 0);

    let ran = ran.lock().unwrap();
    let new: HashSet<JobId> = answers
        .iter()
        .filter(|(_, _, answer)| matches!(answer, Enqueued::New(_)))
        .map(|(_, _, answer)| answer.id())
        .collect();
    let done: HashSet<JobId> = ran.keys().copied().collect();
    assert_eq!(new, done, "each stored job is done, and nothing else");
    assert!(ran.values().all(|runs| runs.len() == 1), "once: {ran:?}");
    // A job runs with a number that it was stored or changed with, so an enqueue without effect has none.
    for (id, runs) in &*ran {
        let given = answers.iter().filter(|(_, _, answer)| {
            *answer == Enqueued::New(*id) || *answer == Enqueued::Replaced(*id)
        });
        let given: HashSet<i64> = given.map(|(_, number, _)| *number).collect();
        assert!(given.contains(&runs[0]), "job {id} ran with {runs:?}");
    }
    let replaced = |(_, _, answer): &&Answer| matches!(answer, Enqueued::Replaced(_));
    assert!(answers.iter().find(replaced).is_some(), "nothing was raced");
    assert_eq!(held(&test), []);
}
