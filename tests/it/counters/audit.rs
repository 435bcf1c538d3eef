//! Audit: the counters against the rows; and what was there before anybody counted.

use redrive::{Act, CountedSet, LetterState, Letters};
use redrive_tests::{Order, TestDatabase, fold, letters, no_drift, published, ran};

/// A migration, by its number.
fn migration(number: usize) -> String {
    let all = redrive::migrate::print();
    let script = all.split("-- Purpose: ").nth(number).expect("a migration");
    format!("-- {script}")
}

#[test]
fn what_was_there_before_is_counted_in() {
    let test = TestDatabase::migrated();
    let queue = test.queue("orders");
    letters(&queue, 5);
    let db = queue.database();
    let which = Letters::queue("orders").limit(2);
    db.redrive(&which, &Act::new()).unwrap();
    queue.enqueue_many(&Order::up_to(4)).unwrap();
    let mut client = test.client();
    client
        .batch_execute(
            "SELECT redrive.enqueue('later', 'order', '{}', delay => '1 hour');
             INSERT INTO redrive.leases (lease_id, worker_id, queue, jobs, done)
             SELECT gen_random_uuid(), gen_random_uuid(), 'leased',
                    array_agg(ROW(n, 'order', 0, '{}', 1, 5, 0, 0, 0, now(), NULL, NULL, NULL)::redrive.leased_job),
                    '{2}'
             FROM generate_series(1, 3) n",
        )
        .unwrap();
    // As if nothing of 0016 had ever been: its tables, types and functions go, and it comes again.
    client
        .batch_execute(
            "DO $$
             DECLARE thing record;
             BEGIN
                 FOR thing IN SELECT tgname FROM pg_trigger
                     WHERE tgrelid = 'redrive.dead_letters'::regclass AND tgname LIKE 'count_metrics%'
                 LOOP EXECUTE 'DROP TRIGGER ' || thing.tgname || ' ON redrive.dead_letters'; END LOOP;
                 FOR thing IN SELECT c.oid::regclass AS name FROM pg_class c
                     WHERE c.relnamespace = 'redrive'::regnamespace AND c.relname LIKE 'metric%'
                         AND c.relkind IN ('r', 'p') AND NOT c.relispartition
                 LOOP EXECUTE 'DROP TABLE ' || thing.name || ' CASCADE'; END LOOP;
                 FOR thing IN SELECT p.oid::regprocedure AS name FROM pg_proc p
                     WHERE p.pronamespace = 'redrive'::regnamespace
                         AND p.proname ~ 'metric|audit_counters|add_counts|count_own_run'
                 LOOP EXECUTE 'DROP FUNCTION ' || thing.name; END LOOP;
                 DROP TYPE redrive.metric_cell;
                 DELETE FROM redrive.migrations WHERE version = 16;
             END $$",
        )
        .unwrap();
    client.batch_execute(&migration(16)).unwrap();

    no_drift(&test.open());
    let series = published(&mut client);
    for (name, expected) in [
        ("redrive_queue_live_jobs{orders}", 6),
        ("redrive_queue_live_jobs{later}", 1),
        ("redrive_queue_live_jobs{leased}", 2),
        ("redrive_dlq_letters{orders,open}", 3),
        ("redrive_dlq_letters{orders,redriving}", 2),
    ] {
        assert_eq!(series.get(name), Some(&expected), "{name}");
    }
    let enqueued = series.get("redrive_jobs_enqueued_total{orders}");
    assert_eq!(enqueued, None, "nobody saw them come");
}

#[test]
fn drift_is_found_and_published() {
    let test = TestDatabase::migrated();
    let queue = test.queue("orders");
    letters(&queue, 3);
    queue.enqueue_many(&Order::up_to(4)).unwrap();
    let db = queue.database();
    no_drift(db);
    let told = ran(&test, &["audit", "counters"]).exits_with(0);
    assert!(
        told.out.contains("orders") && told.err.contains("what the rows say"),
        "{told:?}"
    );

    // A job that comes without being counted, and a letter that is not in the state that was.
    let mut client = test.client();
    client
        .batch_execute(
            "INSERT INTO redrive.jobs (segment, queue, kind, payload) VALUES (0, 'orders', 'order', '{}');
             ALTER TABLE redrive.dead_letters DISABLE TRIGGER count_metrics_of_changed;
             UPDATE redrive.dead_letters SET state = 'recovered'
             WHERE id = (SELECT min(id) FROM redrive.dead_letters)",
        )
        .unwrap();
    let found = db.audit_counters().unwrap();
    let by_set = |set: CountedSet| found.iter().find(|audit| audit.set == set).expect("a set");
    let (live, dlq) = (by_set(CountedSet::Live), by_set(CountedSet::Letters));
    assert_eq!((live.rows, live.total, live.drift), (5, 4, 1));
    assert_eq!(
        (dlq.rows, dlq.total, dlq.drift),
        (3, 3, 2),
        "two states are wrong"
    );
    let series = published(&mut client);
    assert_eq!(series["redrive_audit_drift_jobs{orders,live}"], 1);
    assert_eq!(series["redrive_audit_drift_jobs{orders,dlq}"], 2);

    let told = ran(&test, &["audit", "counters"]).exits_with(1);
    assert!(told.err.contains("2 counters are not"), "{}", told.err);
    let told = ran(&test, &["audit", "counters", "--json"]).exits_with(1);
    assert_eq!(told.lines()[0]["drift"], 1, "{}", told.out);
    ran(&test, &["audit", "counters", "--since", "1d"]).exits_with(2);
    assert_eq!(
        redrive_tests::letters_in(db, "orders", LetterState::Recovered),
        1
    );
    fold(&mut client);
    assert_eq!(
        db.audit_counters().unwrap(),
        found,
        "a fold changes nothing about it"
    );
}
