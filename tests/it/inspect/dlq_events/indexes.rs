//! The usual conditions on `dlq_events` use indexes.

use redrive_tests::TestDatabase;

use super::with_search_path;

/// Letters in the shares of a queue that has run for a while: most recovered, some open, few of them captured.
const MANY_LETTERS: &str = "
    ALTER TABLE redrive.dead_letters DISABLE TRIGGER USER;
    INSERT INTO redrive.dead_letters
        (id, queue, kind, cause, error_class, error_message, payload, group_id, enqueued_at, died_at, state, source, position,
         discard_reason)
    SELECT n, 'orders', CASE WHEN n % 1000 = 0 THEN 'rare' ELSE 'order' END,
           CASE WHEN n % 500 = 0 THEN 'captured' ELSE 'rejected' END, 'E', 'e', '{}', 1, now(),
           now() - n * interval '1 minute', s.state, CASE WHEN n % 500 = 0 THEN 's' END,
           CASE WHEN n % 500 = 0 THEN n::text END, CASE WHEN s.state = 'discarded' THEN 'old' END
    FROM generate_series(1, 200000) n
    CROSS JOIN LATERAL (SELECT CASE
        WHEN n % 500 < 2 THEN 'open' WHEN n % 500 = 2 THEN 'quarantined' WHEN n % 500 < 8 THEN 'discarded'
        ELSE 'recovered' END AS state) s;
    ANALYZE redrive.dead_letters";

#[test]
fn the_usual_queries_use_indexes_among_many_letters() {
    let test = TestDatabase::migrated();
    test.client().batch_execute(MANY_LETTERS).unwrap();
    let mut client = with_search_path(&test);
    for (condition, count) in [
        ("status = 'PENDING'", 400),
        ("status = 'PENDING' AND retry_after <= NOW()", 400),
        ("status = 'FAILED_PERMANENTLY'", 2800),
        ("event_type = 'rare'", 200),
        ("created_at > NOW() - INTERVAL '24 hours'", 1439),
    ] {
        let query = format!("SELECT * FROM dlq_events WHERE {condition}");
        let plan: String = client
            .query(&format!("EXPLAIN {query}"), &[])
            .unwrap()
            .iter()
            .map(|row| row.get::<_, String>(0) + "\n")
            .collect();
        assert!(
            !plan.contains("Seq Scan on dead_letters"),
            "{condition}:\n{plan}"
        );
        let found = client.query(&query, &[]).unwrap().len();
        assert_eq!(found, count, "{condition}");
    }
    let next = "SELECT id FROM dlq_events WHERE status = 'PENDING' AND retry_after <= NOW() ORDER BY retry_after LIMIT 50";
    let ids: Vec<i64> = client
        .query(next, &[])
        .unwrap()
        .iter()
        .map(|row| row.get(0))
        .collect();
    let oldest: Vec<i64> = (0..50).map(|n| 200_000 - n * 500).collect();
    assert_eq!(ids, oldest);
}
