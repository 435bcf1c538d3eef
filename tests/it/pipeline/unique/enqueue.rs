//! Enqueueing jobs with a unique key.

use redrive_tests::prelude::*;

use super::{enqueue_behind, held, inserted};

#[test]
fn a_second_job_with_a_key_returns_the_first() {
    let test = TestDatabase::migrated();
    let (queue, other) = (test.queue("orders"), test.queue("refunds"));
    let first = inserted(queue.enqueue_job(new_order(1).unique("a")).unwrap());
    let second = queue.enqueue_job(new_order(2).unique("a")).unwrap();
    assert_eq!(second, Enqueued::Existing(first));
    let job = queue.live(first);
    assert_eq!(job.unique_key.as_deref(), Some("a"));
    inserted(queue.enqueue_job(new_order(4).unique("b")).unwrap());
    inserted(queue.enqueue_job(new_order(5)).unwrap());
    inserted(other.enqueue_job(new_order(6).unique("a")).unwrap());
    // Delayed jobs hold their key as well, and a call may have both kinds and a key twice.
    let [a, c] = ["a", "c"].map(|key| new_order(7).unique(key));
    let jobs = [c.clone().delay(HOUR), new_order(8), a, c];
    let ids = ids(&queue.enqueue_jobs(&jobs).unwrap());
    assert_eq!((ids[2], ids[3]), (first, ids[0]));
    assert_eq!(test.count("live_jobs"), 6);
    let keyed = "live_jobs j JOIN redrive.unique_keys k \
                 ON k.job_id = j.id AND k.key = j.unique_key AND k.queue = j.queue";
    assert_eq!(test.count(keyed), 4);
}

#[test]
fn eight_concurrent_enqueuers_create_one_job_per_key() {
    let test = TestDatabase::migrated();
    let enqueue = |queue: Queue| {
        let job = |key: i64| new_order(1).unique(key.to_string());
        let added = (0..20).map(|key| queue.enqueue_job(job(key)).unwrap());
        added.collect::<Vec<_>>()
    };
    let added = at_once(8, |_| test.queue("orders"), enqueue).concat();
    let mut new = added.clone();
    new.retain(|added| matches!(added, Enqueued::New(_)));
    let [stored, returned] = [new, added].map(|of| BTreeSet::from_iter(ids(&of)));
    assert_eq!(stored.len(), 20, "each key has one job");
    assert_eq!(stored, returned, "all know it");
    assert_eq!(held(&test).len(), 20);
}

#[test]
fn an_enqueue_that_waited_for_another_session_gets_its_job_or_stores_its_own() {
    let (test, queue) = TestDatabase::with_orders();
    for (key, commits) in [("a", true), ("b", false)] {
        let mut open = test.begins("");
        let first = queue.enqueue_job_in(&mut open, new_order(1).unique(key));
        let first = inserted(first.unwrap());
        let second = enqueue_behind(&test, open, commits, new_order(2).unique(key));
        match commits {
            true => assert_eq!(second, Enqueued::Existing(first)),
            false => assert!(held(&test).contains(&(key.to_owned(), inserted(second)))),
        }
    }
    assert_eq!(held(&test).len(), 2, "one job per key");
}
