//! Stats: the counts of the queues.

use redrive_tests::prelude::*;

#[test]
fn stats_count_each_job_and_letter_by_state() {
    let test = TestDatabase::migrated();
    let (orders, other) = (test.queue("orders"), test.queue("another"));
    let db = orders.database();
    assert!(db.admin().stats(None).unwrap().is_empty());
    assert!(db.admin().stats(Some("orders")).unwrap().is_empty());

    let broken = worker(&orders).runs(|_: &Job<Order>| Err(Failure::reject("no")));
    let ids = orders.enqueue_many(&Order::up_to(6)).unwrap();
    finish(&orders, broken);
    db.discards(&only(ids[0]));
    db.redrives(&LetterFilter::new().ids([ids[1], ids[2]]));
    work_off(&orders, |_: &Job<Order>| Ok(()));
    db.redrives(&only(ids[3]));

    let gate = Gate::new();
    let holding = worker(&orders).slots(2).runs(gate.handler());
    orders.enqueue_many(&[Hold {}; 3]).unwrap();
    gate.wait_for(2);
    put(&orders, new_order(1).delay(Duration::from_mins(1)));
    other.enqueue(&Order { number: 1 }).unwrap();
    test.sql(
        "UPDATE redrive.jobs SET meta.ready_at = now() - interval '1 hour' WHERE queue = 'another'",
    );

    let all = db.admin().stats(None).unwrap();
    let names: Vec<&str> = all.iter().map(|queue| &*queue.queue).collect();
    assert_eq!(names, ["another", "orders"]);
    let numbers = &all[1];
    // The redriven order is ready: this worker does not handle it.
    assert_eq!((numbers.ready, numbers.delayed, numbers.leased), (2, 1, 2));
    assert_eq!((numbers.workers, numbers.slots), (1, 2));
    let letters = [numbers.open, numbers.redriving, numbers.recovered];
    assert_eq!(letters, [2, 1, 2]);
    assert_eq!((numbers.discarded, numbers.quarantined), (1, 0));
    let kinds = numbers.kinds.iter().map(|kind| {
        let jobs = [kind.ready, kind.delayed, kind.leased];
        (&*kind.kind, jobs, kind.is_handled)
    });
    assert!(kinds.eq([("hold", [1, 0, 2], true), ("order", [1, 1, 0], false)]));
    let age = all[0].oldest_ready.expect("a ready job").as_secs();
    assert!((3600..3700).contains(&age), "{age} s");
    assert_eq!(db.admin().stats(Some("another")).unwrap().len(), 1);
    gate.open();
    stop(holding);
}

#[test]
fn a_kind_is_handled_if_a_live_worker_of_its_queue_handles_it() {
    let (test, queue) = TestDatabase::with_orders();
    queue.enqueue(&Order { number: 1 }).unwrap();
    let workers = |values: &str| {
        let sql = format!(
            "TRUNCATE redrive.workers; INSERT INTO redrive.workers (worker_id, queue, host, pid, version, slots, kinds, expires_at)
             SELECT gen_random_uuid(), w.queue, 'h', 1, '1', 1, w.kinds::text[], now() + w.expires::interval
             FROM (VALUES {values}) w (queue, kinds, expires)"
        );
        test.sql(&sql);
        let stats = queue.database().admin().stats(Some("orders")).unwrap();
        stats[0].kinds[0].is_handled
    };
    assert!(workers("('orders', '{order,mail}', '1h')"));
    assert!(workers("('orders', NULL, '1h')"), "all kinds");
    assert!(!workers("('orders', '{mail}', '1h')"));
    assert!(!workers("('orders', '{order}', '-1s')"), "it has expired");
    assert!(!workers("('others', '{order}', '1h')"));
}
