//! Windows: an enqueue stores nothing within a time after the last job with its key, even if that is done.

use redrive_tests::prelude::*;

use super::{enqueue_behind, held, inserted, keys};

fn hourly(number: i64) -> NewJob {
    new_order(number).unique("a").unique_window(HOUR)
}

/// Returns the windows and the jobs that opened them, ordered by key.
fn windows(test: &TestDatabase) -> Vec<(String, JobId)> {
    keys(test, "unique_windows")
}

fn end_windows(test: &TestDatabase) {
    test.sql("UPDATE redrive.unique_windows SET ends_at = clock_timestamp()");
}

#[test]
fn a_window_outlasts_its_job_and_binds_only_enqueues_with_a_window() {
    let test = TestDatabase::migrated();
    let (queue, other) = (test.queue("orders"), test.queue("bills"));
    let worker = willing(&queue);
    let first = inserted(queue.enqueue_job(hourly(1)).unwrap());
    drained(&queue);
    assert_eq!(held(&test), [], "the job is done");
    let again = queue.enqueue_job(hourly(2)).unwrap();
    assert_eq!(again, Enqueued::Existing(first));
    assert_eq!(held(&test), [], "a duplicate takes no key");
    inserted(other.enqueue_job(hourly(3)).unwrap());
    let without = inserted(queue.enqueue_job(new_order(4).unique("a")).unwrap());
    drained(&queue);
    assert_eq!(windows(&test).len(), 2, "one for each queue");
    assert_eq!(windows(&test)[1], ("a".to_owned(), first));
    assert!(without > first);
    end_windows(&test);
    let next = inserted(queue.enqueue_job(hourly(5)).unwrap());
    drained(&queue);
    assert_eq!(put(&queue, hourly(6)), next);
    assert_eq!(stop(worker).stats.done, 3);
}

#[test]
fn a_live_job_keeps_its_key_after_its_window() {
    let (test, queue) = TestDatabase::with_orders();
    let first = inserted(queue.enqueue_job(hourly(1)).unwrap());
    end_windows(&test);
    let again = queue.enqueue_job(hourly(2)).unwrap();
    assert_eq!(again, Enqueued::Existing(first));
    let open = test.count("unique_windows WHERE ends_at > clock_timestamp()");
    assert_eq!(open, 0, "no job, no window");
}

#[test]
fn the_job_that_holds_the_key_is_returned_rather_than_the_one_that_opened_the_window() {
    let (_test, queue) = TestDatabase::with_orders();
    let first = inserted(queue.enqueue_job(hourly(1)).unwrap());
    queue.cancels(first);
    let live = inserted(queue.enqueue_job(new_order(2).unique("a")).unwrap());
    let again = queue.enqueue_job(hourly(3)).unwrap();
    assert_eq!(again, Enqueued::Existing(live));
    let changed = queue.enqueue_job(hourly(4).replace(Replace::Payload));
    assert_eq!(changed.unwrap(), Enqueued::Replaced(live));
}

#[test]
fn a_replacing_enqueue_changes_the_waiting_job_and_stores_none_after_it_is_done() {
    let (test, queue) = TestDatabase::with_orders();
    let change = |number| hourly(number).replace(Replace::Payload).until_started();
    let first = inserted(queue.enqueue_job(change(1)).unwrap());
    let again = queue.enqueue_job(change(2)).unwrap();
    assert_eq!(again, Enqueued::Replaced(first));
    let gate = Gate::new();
    let worker = worker(&queue).runs(gate.passing::<Order>());
    gate.wait_for(1);
    let running = queue.enqueue_job(change(3)).unwrap();
    assert_eq!(running, Enqueued::Existing(first), "the key is free");
    gate.open();
    drained(&queue);
    let after = queue.enqueue_job(change(4)).unwrap();
    assert_eq!(after, Enqueued::Existing(first));
    end_windows(&test);
    inserted(queue.enqueue_job(change(5)).unwrap());
    done(&worker, 2);
    stop(worker);
}

#[test]
fn an_enqueue_that_waited_for_another_session_finds_its_window() {
    let (test, queue) = TestDatabase::with_orders();
    for commits in [true, false] {
        let mut open = test.begins("");
        let first = inserted(queue.enqueue_job_in(&mut open, hourly(1)).unwrap());
        // The key is free again when the transaction commits, but the window is open.
        open.sql("DELETE FROM redrive.unique_keys");
        let second = enqueue_behind(&test, open, commits, hourly(2));
        match commits {
            true => {
                assert_eq!(second, Enqueued::Existing(first));
                assert_eq!(held(&test), [], "it gave the key back");
                end_windows(&test);
            }
            false => {
                let second = inserted(second);
                assert_eq!(windows(&test), [("a".to_owned(), second)]);
            }
        }
    }
}

#[test]
fn new_windows_delete_the_expired_ones() {
    let (_test, queue, mut client) = TestDatabase::with_session();
    let expired = "INSERT INTO redrive.unique_windows (queue, key, job_id, ends_at) \
        SELECT 'bills', 'old ' || n, n, clock_timestamp() - interval '1 s' FROM generate_series(1, 5000) n";
    client.sql(expired);
    let left = "unique_windows WHERE queue = 'bills'";
    let pages =
        "SELECT pg_relation_size('redrive.unique_windows') / current_setting('block_size')::bigint";
    let pages = scalar(&mut client, pages);
    assert!(pages > 20, "{pages} pages");
    inserted(queue.enqueue_job(hourly(0)).unwrap());
    let after_one = client.count(left);
    assert!((4500..5000).contains(&after_one), "one page: {after_one}");
    // Ids follow one another, so as many enqueues as pages visit every page.
    for n in 1..=pages + 5 {
        let job = new_order(n).unique(n.to_string()).unique_window(HOUR);
        inserted(queue.enqueue_job(job).unwrap());
    }
    assert_eq!(client.count(left), 0);
}

#[test]
fn the_sql_function_replaces_and_opens_windows() {
    let (test, mut client) = TestDatabase::with_client();
    let enqueue = "SELECT redrive.enqueue('orders', 'order', '{}', unique_key => 'a', @)";
    let mut call = |more: &str| -> i64 { client.ask(&enqueue.replace('@', more), &[]) };
    let first = call("unique_window => '1 hour', delay => '1 hour'");
    assert_eq!(call("delay => '3 hours', replace => 'time'"), first);
    let moved = "jobs_delayed WHERE run_at > clock_timestamp() + interval '2 hours'";
    assert_eq!(test.count(moved), 1);
    test.open().cancels(JobId::new(first));
    for more in ["", ", replace => 'both'", ", until_started => true"] {
        let again = call(&format!("unique_window => '5 s'{more}"));
        assert_eq!(again, first, "{more}");
    }
}
