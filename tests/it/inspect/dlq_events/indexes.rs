//! The usual conditions on `dlq_events` use indexes.

use std::collections::BTreeSet;

use redrive_tests::TestDatabase;

use super::changes::CLAIM;
use super::with_search_path;

/// Letters in the shares of a queue that has run for a while: most recovered, some open, few of them waiting for a
/// consumer, and as many claimed.
const MANY_LETTERS: &str = "
    ALTER TABLE redrive.dead_letters DISABLE TRIGGER USER;
    INSERT INTO redrive.dead_letters
        (id, queue, kind, cause, error_class, error_message, payload, group_id, enqueued_at, died_at, state, source, position,
         discard_reason, retry_after, claimed_until)
    SELECT n, 'orders', CASE WHEN n % 1000 = 0 THEN 'rare' ELSE 'order' END,
           CASE WHEN n % 500 < 2 THEN 'captured' ELSE 'rejected' END, 'E', 'e', '{}', 1, now(),
           timestamptz '2100-01-02 00:00:00+00' - n * interval '1 minute', s.state, CASE WHEN n % 500 < 2 THEN 's' END,
           CASE WHEN n % 500 < 2 THEN n::text END, CASE WHEN s.state = 'discarded' THEN 'old' END,
           CASE WHEN n % 500 < 2 THEN now() - n * interval '1 minute' END,
           CASE WHEN n % 500 = 1 THEN now() + interval '1 hour' END
    FROM generate_series(1, 200000) n
    CROSS JOIN LATERAL (SELECT CASE
        WHEN n % 500 < 3 THEN 'open' WHEN n % 500 = 3 THEN 'quarantined' WHEN n % 500 < 8 THEN 'discarded'
        ELSE 'recovered' END AS state) s;
    ANALYZE redrive.dead_letters";

#[test]
fn the_usual_queries_use_indexes_among_many_letters() {
    let test = TestDatabase::migrated();
    test.client().batch_execute(MANY_LETTERS).unwrap();
    let mut client = with_search_path(&test);
    let mut planned = |query: &str| {
        let plan = client.query(&format!("EXPLAIN {query}"), &[]).unwrap();
        let plan: Vec<&str> = plan.iter().map(|row| row.get(0)).collect();
        assert!(
            !plan.join("\n").contains("Seq Scan on dead_letters"),
            "{query}: {plan:#?}"
        );
        client.query(query, &[]).unwrap()
    };
    for (condition, count) in [
        ("status = 'PENDING' AND retry_after <= NOW()", 400),
        ("event_type = 'rare'", 200),
        ("created_at > '2100-01-01 00:00:00+00'", 1439),
    ] {
        let found = planned(&format!("SELECT * FROM dlq_events WHERE {condition}"));
        assert_eq!(found.len(), count, "{condition}");
    }
    let ids: Vec<i64> = planned(CLAIM).iter().map(|row| row.get("id")).collect();
    let ids: BTreeSet<i64> = ids.into_iter().collect();
    let oldest: BTreeSet<i64> = (0..50).map(|n| 200_000 - n * 500).collect();
    assert_eq!(ids, oldest);
}
