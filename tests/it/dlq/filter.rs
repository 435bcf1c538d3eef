//! The filter: every condition selects the matching letters.

mod refused;
mod same;

use redrive_tests::prelude::*;

/// Five letters, 1 to 5, that differ in everything.
fn five(test: &TestDatabase) -> Database {
    test.sql(r#"INSERT INTO redrive.dead_letters
                 (id, queue, kind, state, cause, error_class, error_message, payload, raw, source, position,
                  generation, version, host, run_id, discard_reason, enqueued_at, died_at)
             VALUES
                 (1, 'orders', 'placed', 'open', 'exhausted', 'Timeout', 'card declined', '{"amount": 5, "customer": {"id": 42}, "tags": ["x y", "b"]}',
                  NULL, NULL, NULL, 0, '1.4', 'web-1', NULL, NULL, now(), now() - interval '1 hour'),
                 (2, 'orders', 'paid', 'open', 'rejected', 'Refused', 'CARD lost', '{"amount": 500, "customer": {"id": "42"}}',
                  NULL, NULL, NULL, 1, '1.5', 'web-2', 7, NULL, now(), now() - interval '3 hours'),
                 (3, 'invoices', 'placed', 'recovered', 'timeout', 'Timeout', 'late', '{"amount": 100.5, "a b": {"\"": true}, "n": null}',
                  NULL, NULL, NULL, 2, '1.4', 'web-1', NULL, NULL, now(), now() - interval '2 days'),
                 (4, 'orders', 'placed', 'quarantined', 'exhausted', 'a, b', 'x', '[{"sku": "A-1"}, {"sku": "B-2"}]',
                  NULL, NULL, NULL, 3, NULL, NULL, 8, NULL, now(), '2026-01-02T03:04:05Z'),
                 (5, 'my orders', 'placed', 'open', 'captured', '"quoted"', 'x', NULL,
                  'raw', 'kafka:orders', '1', 0, NULL, NULL, NULL, NULL, now(), '2026-01-01T00:00:00Z')"#);
    test.open()
}

fn ids(db: &Database, filter: &LetterFilter) -> Vec<i64> {
    let ids = db.listed_ids(filter).into_iter();
    let mut ids: Vec<i64> = ids.map(JobId::get).collect();
    ids.sort_unstable();
    let counted = db.dlq().count(filter).unwrap();
    assert_eq!(counted, ids.len() as u64, "{filter}");
    ids
}

#[test]
fn the_condition_of_a_counted_value_selects_the_letters_it_counts() {
    let test = TestDatabase::migrated();
    let db = five(&test);
    test.sql(
        r#"INSERT INTO redrive.dead_letters (id, queue, kind, state, cause, error_class, error_message, payload, enqueued_at)
           SELECT 10 + n, 'orders', 'placed', 'open', 'rejected', v, 'x', ('{"a b": {"c.d": [' || v || ']}}')::json, now()
           FROM unnest('{42,"\"42\"",42.0,true,"\"true\"","\"x y\"","\"\"",null,"{\"x\": 1}","\"{\"","\"\\\"q\""}'::text[])
                WITH ORDINALITY t (v, n)
           WHERE v IS NOT NULL"#,
    );
    let letters = LetterFilter::new().states(LetterState::ALL);
    for (property, values, without_condition) in [
        ("kind", 2, 0),
        ("payload.customer.id", 2, 0),
        ("payload.\"a b\".\"c.d\"[0]", 9, 1),
    ] {
        let counts = db.dlq().count_by(&letters, property).unwrap();
        let counts = counts.iter().filter(|count| count.value.is_some());
        let counts: Vec<_> = counts.collect();
        assert_eq!(counts.len(), values, "{property}: {counts:?}");
        let conditions = counts.iter().filter_map(|count| {
            // No condition selects a list or an object.
            let value = count
                .value
                .as_ref()
                .filter(|value| !value.starts_with(['[', '{']));
            Some((format!("{property}={}", value?), count.letters))
        });
        let conditions: Vec<_> = conditions.collect();
        let all = conditions.len() + without_condition;
        assert_eq!(all, values, "{conditions:?}");
        for (condition, counted) in conditions {
            let selected = letters.clone().condition(&condition).unwrap();
            let found = db.dlq().count(&selected).unwrap();
            assert_eq!(found, counted, "{condition}");
        }
    }
}

#[test]
fn every_condition_selects_the_matching_letters() {
    let test = TestDatabase::migrated();
    let db = five(&test);
    for (filter, expected) in [
        ("", &[1, 2, 3, 4, 5][..]),
        ("queue=orders", &[1, 2, 4]),
        ("queue=\"my orders\"", &[5]),
        ("kind=paid", &[2]),
        ("class=Timeout", &[1, 3]),
        ("class=Timeout,Refused", &[1, 2, 3]),
        ("class=Timeout,Refused state=open,quarantined", &[1, 2]),
        ("class=\"a, b\"", &[4]),
        ("class=\"\\\"quoted\\\"\"", &[5]),
        ("class=Nobody state=open", &[]),
        ("group=999", &[]),
        ("cause=exhausted", &[1, 4]),
        ("cause=timeout,captured", &[3, 5]),
        ("state=open", &[1, 2, 5]),
        ("state=any", &[1, 2, 3, 4, 5]),
        ("id=2,4,99", &[2, 4]),
        ("id=2..4", &[2, 3, 4]),
        ("id>2 id<5", &[3, 4]),
        ("age>2h", &[2, 3, 4, 5]),
        ("age<4h", &[1, 2]),
        ("age>2h age<1d", &[2]),
        ("died<2026-01-02", &[5]),
        ("died>=2026-01-01 died<2026-01-02T03:04:06Z", &[4, 5]),
        (
            "died>=2026-01-02T05:04:05+02:00 died<2026-01-02T05:04:05.5+02:00",
            &[4],
        ),
        ("generation>=2", &[3, 4]),
        ("generation=1..2", &[2, 3]),
        ("generation=0", &[1, 5]),
        ("generation!=0 generation<3", &[2, 3]),
        ("payload.customer.id=42", &[1]),
        ("payload.customer.id=\"42\"", &[2]),
        ("payload.customer.id!=42", &[]),
        ("payload.customer.id!=43", &[1]),
        ("payload.amount>100 payload.amount<=100.50", &[3]),
        ("payload.tags[0]=\"x y\"", &[1]),
        ("payload.tags=b", &[1]),
        ("payload[1].sku=B-2", &[4]),
        ("payload.sku~\"a-\"", &[4]),
        ("payload.\"a b\".\"\\\"\"=true", &[3]),
        ("payload.n=null", &[3]),
        ("payload.nothing.at.all=1", &[]),
        ("message~card", &[1, 2]),
        ("message~\"card declined\"", &[1]),
        ("version=1.4", &[1, 3]),
        ("host=web-2", &[2]),
        ("source=kafka:orders", &[5]),
        ("run=7", &[2]),
        (
            "queue=orders class=Timeout payload.amount<10 state=open",
            &[1],
        ),
    ] {
        let filter: LetterFilter = filter
            .parse()
            .unwrap_or_else(|error| panic!("{filter}: {error}"));
        assert_eq!(ids(&db, &filter), expected, "{filter}");
    }
}

#[test]
fn the_pages_of_a_class_continue_where_the_last_one_ended() {
    let (test, db) = TestDatabase::opened();
    test.sql("INSERT INTO redrive.dead_letters (queue, kind, cause, error_class, error_message, payload, enqueued_at, died_at)
             SELECT 'orders', 'order', 'exhausted', 'E', 'at ' || chr(97 + n % 3), '{}', now(), now() - n * interval '1 minute'
             FROM generate_series(1, 25) n");
    let filter = LetterFilter::new().error_class("E");
    let filter = filter.state(LetterState::Open).limit(10);
    let mut seen = Vec::new();
    let mut page = db.listed(&filter);
    while let Some(last) = page.last() {
        let after = last.id;
        assert!(page.is_sorted_by(|a, b| a.died_at >= b.died_at));
        seen.extend(page.iter().map(|letter| letter.id.get()));
        page = db.listed(&filter.clone().after(after));
    }
    assert_eq!(seen, (1..=25).collect::<Vec<i64>>());
}

#[test]
fn a_list_of_letters_that_wait_reads_none_that_are_redriving() {
    let (test, _, _) = TestDatabase::with_letters(3);
    let mut client = test.client();
    client.sql("INSERT INTO redrive.dead_letters (queue, kind, cause, error_class, error_message, payload, enqueued_at, state)
             SELECT 'orders', 'order', 'exhausted', 'E', 'e', '{}', now(), 'redriving' FROM generate_series(1, 20000);
             ANALYZE redrive.dead_letters");
    let list = "SELECT * FROM redrive.list_letters('{\"state\": [\"open\", \"quarantined\"]}')";
    let reading = fewest_pages(&mut client, list);
    assert!(reading.pages < 300, "{reading:?}");
}
