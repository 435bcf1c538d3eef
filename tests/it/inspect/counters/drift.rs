//! Audits the counters against the rows.

use redrive_tests::prelude::*;

#[test]
fn drift_is_detected() {
    let (test, queue, _) = TestDatabase::with_letters(3);
    queue.enqueue_many(&Order::up_to(4)).unwrap();
    let db = queue.database();
    no_drift(db);
    test.run("audit counters").tells("match the rows");

    // A job that was not counted, and a letter whose state was changed directly.
    let mut client = test.client();
    client.sql("INSERT INTO redrive.jobs (segment, queue, kind, payload) VALUES (0, 'orders', 'order', '{}')");
    test.fails(1, "audit counters")
        .tells("1 difference between the counters and the rows");
    client.sql(
        "ALTER TABLE redrive.dead_letters DISABLE TRIGGER count_changed;
             UPDATE redrive.dead_letters SET state = 'recovered'
             WHERE id = (SELECT min(id) FROM redrive.dead_letters)",
    );
    let found = db.admin().audit_counters().unwrap();
    let by_set = |set: CountedSet| found.iter().find(|audit| audit.set == set).expect("a set");
    let (live, dlq) = (by_set(CountedSet::Live), by_set(CountedSet::Letters));
    assert_eq!((live.rows, live.total, live.drift), (5, 4, 1));
    assert_eq!(dlq.rows, 3, "two states are wrong");
    assert_eq!(dlq.total, 3, "two states are wrong");
    assert_eq!(dlq.drift, 2, "two states are wrong");

    test.fails(1, "audit counters")
        .shows("queue orders, live: 5 rows, 4 counted")
        .tells("2 differences between the counters and the rows");
    let output = test.fails(1, "audit counters --json");
    assert_eq!(output.lines()[0]["fault"], "counter", "{}", output.out);
    test.fails(2, "audit counters --since 1d");
    assert_eq!(letters_in(db, "orders", LetterState::Recovered), 1);
    fold(&mut client);
    let folded = db.admin().audit_counters().unwrap();
    assert_eq!(folded, found, "a fold changes nothing about it");
}
