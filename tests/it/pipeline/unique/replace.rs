//! Replace: an enqueue changes the waiting job that holds its key, and never a running one.

use redrive_tests::prelude::*;

use super::{held, inserted};

/// Returns the number of the waiting order with this id, and whether it is delayed and by how many
/// half hours.
fn waiting(test: &TestDatabase, id: JobId) -> (i64, Option<i64>) {
    let asked = "SELECT (payload ->> 'number')::bigint, NULL::bigint FROM redrive.jobs WHERE id = $1 \
        UNION ALL \
        SELECT (payload ->> 'number')::bigint, \
               round(extract(epoch FROM run_at - clock_timestamp()) / 1800)::bigint \
        FROM redrive.jobs_delayed WHERE id = $1";
    test.client().row(asked, &[&id.get()])
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
        let keyed = |number, delay: u32| new_order(number).unique(&*key).delay(HOUR * delay);
        let id = put(&queue, keyed(1, first).priority(7));
        // The job keeps its priority, whichever the second enqueue has.
        let again = queue.enqueue_job(keyed(2, second).replace(change)).unwrap();
        assert_eq!(again, Enqueued::Replaced(id));
        assert_eq!(waiting(&test, id), expected, "{first} {second} {change:?}");
    }
    assert_eq!(test.count("live_jobs WHERE priority = 7"), 9);
    assert_eq!(held(&test).len(), 9);
    let other = NewJob::new(&Hold {}).unwrap().unique("0");
    let other = queue.enqueue_job(other.replace(Replace::Both)).unwrap();
    assert!(matches!(other, Enqueued::Existing(_)), "of another kind");
}

#[test]
fn a_running_job_is_never_changed() {
    let (_test, queue) = TestDatabase::with_orders();
    let (gate, tally) = (Gate::new(), Tally::new());
    let worker = worker(&queue).runs(gate.passing_to(tally.counting()));
    let change = |number| {
        let job = new_order(number).unique("a").replace(Replace::Both);
        queue.enqueue_job(job).unwrap()
    };
    let first = inserted(change(1));
    gate.wait_for(1);
    assert_eq!(change(2), Enqueued::Existing(first));
    gate.open();
    done(&worker, 1);
    let second = inserted(change(3));
    done(&worker, 2);
    stop(worker);
    assert_eq!(tally.order(), [first, second]);
}

#[test]
fn an_open_transaction_that_replaces_delays_only_the_replaced_job() {
    let (test, queue) = TestDatabase::with_orders();
    let id = put(&queue, new_order(1).unique("a"));
    let mut transaction = test.begins("");
    let changed = new_order(2).unique("a").replace(Replace::Payload);
    let changed = queue.enqueue_job_in(&mut transaction, &changed).unwrap();
    assert_eq!(changed, Enqueued::Replaced(id));
    let tally = Tally::new();
    let counts = tally.counting();
    let worker = worker(&queue).runs(move |job: &Job<Order>| {
        assert_ne!(job.payload().number, 1);
        counts(job)
    });
    let others = [new_order(8), new_order(9).unique("b")].map(|job| put(&queue, job));
    done(&worker, 2);
    transaction.sql("COMMIT");
    done(&worker, 3);
    stop(worker);
    assert_eq!(tally.order(), [others[0], others[1], id]);
    assert_eq!(held(&test), []);
}

#[test]
fn of_several_jobs_of_one_call_the_first_one_decides() {
    let (test, queue) = TestDatabase::with_orders();
    let change = |numbers: [i64; 2]| {
        let jobs = numbers.map(|number| new_order(number).unique("a").replace(Replace::Payload));
        queue.enqueue_jobs(&jobs).unwrap()
    };
    let stored = change([1, 2]);
    let id = inserted(stored[0]);
    assert_eq!(stored[1], Enqueued::Existing(id));
    assert_eq!(waiting(&test, id), (1, None));
    let replaced = [Enqueued::Replaced(id), Enqueued::Existing(id)];
    assert_eq!(change([3, 4]), replaced);
    assert_eq!(waiting(&test, id), (3, None));
}

#[test]
fn a_new_payload_has_its_own_version_and_no_checkpoint_and_a_new_time_its_own_expiry() {
    let (test, queue, mut client) = TestDatabase::with_session();
    for (n, delay) in [(1, 0), (2, 1)] {
        let old = new_order(1).unique(n.to_string()).delay(HOUR * delay);
        let old = old.header("trace", "t").expires_in(HOUR * 2);
        let id = queue.enqueue_job(old).unwrap().id().get();
        let table = ["jobs", "jobs_delayed"][delay as usize];
        client.sql(&format!(
            "UPDATE redrive.{table} SET enqueued_at = enqueued_at - interval '90 minutes', \
                 meta.headers = (meta).headers || '{{\"redrive-checkpoint\": \"5\", \"redrive-payload-version\": \"3\"}}'"
        ));
        let replace = |version: &str, change| {
            let new = NewJob::raw("order", "{\"number\": 2}").unwrap();
            let new = new.header("redrive-payload-version", version);
            let new = new.unique(n.to_string()).delay(HOUR * delay);
            let enqueued = put(&queue, new.expires_in(HOUR * 2).replace(change));
            assert_eq!(enqueued.get(), id);
            let asked = "SELECT concat_ws(' ', h ->> 'trace', h ->> 'redrive-checkpoint', h ->> 'redrive-payload-version', \
                             round((h ->> 'redrive-expires-in-ms')::bigint / 1800000.0)) \
                         FROM (SELECT to_jsonb(headers) FROM redrive.live_jobs WHERE id = $1) j (h)";
            test.client().ask::<String>(asked, &[&id])
        };
        assert_eq!(replace("4", Replace::Time), "t 5 3 7");
        assert_eq!(replace("2", Replace::Payload), "t 2 7");
        let older = "SET enqueued_at = enqueued_at - interval '30 minutes'";
        client.sql(&format!("UPDATE redrive.{table} {older}"));
        assert_eq!(replace("1", Replace::Both), "t 1 8");
    }
}
