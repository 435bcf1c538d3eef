//! Which failures are one group.

use std::thread;

use redrive::dlq::GroupFilter;
use redrive_tests::TestDatabase;

use super::{die, the_group};

#[test]
fn messages_that_differ_only_in_an_id_are_one_group() {
    let test = TestDatabase::migrated();
    let mut client = test.client();
    client
        .execute(
            "INSERT INTO redrive.dead_letters (queue, kind, cause, error_class, error_message, payload, enqueued_at)
             SELECT 'orders', 'order', 'exhausted', 'Timeout',
                    'order ' || n || ' of ' || gen_random_uuid() || ' at 10.0.0.' || n % 250 || ':5432 (0x' || to_hex(n * 7919)
                    || ') since ' || now() - n * interval '1 minute' || ' for ''customer ' || md5(n::text) || ''' and \"' || n || '\"',
                    '{}', now()
             FROM generate_series(1, 1000) n",
            &[],
        )
        .unwrap();
    let group = the_group(&test.open());
    assert_eq!((group.open, group.deaths), (1000, 1000));
    assert_eq!(group.title, "order ? of ? at ? (?) since ? for ? and ?");
    assert!(group.sample.starts_with("order 1 of "), "{}", group.sample);
    assert_eq!(group.hours.len(), 24);
    assert_eq!(group.hours[23], 1000, "the hour that runs is the last");
}

#[test]
fn the_fingerprint_separates_different_failures() {
    let test = TestDatabase::migrated();
    let mut client = test.client();
    for (one, other, alike) in [
        ("user 17 not found", "user 18 not found", true),
        ("can't read 'a b'", "can't read 'c'", true),
        ("bad value `x`", "bad value `y z`", true),
        (
            "at 2026-11-20T10:00:00Z",
            "at 2025-01-02T03:04:05.678Z",
            true,
        ),
        ("ids 1, 2, 3", "ids 4, 5", true),
        (
            "of eacabafa-c2c6-49f5-8871-981e10056f31",
            "of b58004a5-785f-4981-955c-0bb089142d8c",
            true,
        ),
        (
            "of abcdefab-cdef-4bcd-afab-cdefabcdefab",
            "of 12345678-1234-4234-8234-123456789012",
            true,
        ),
        ("addr fe80::1 port 80", "addr fe80::2 port 443", true),
        ("user not found", "order not found", false),
        ("timeout", "timeout while reading", false),
    ] {
        let same = die(&mut client, "E", one) == die(&mut client, "E", other);
        assert_eq!(same, alike, "`{one}` and `{other}`");
    }
    assert_ne!(
        die(&mut client, "E", "x"),
        die(&mut client, "F", "x"),
        "another class"
    );
}

#[test]
fn letters_written_by_one_statement_get_their_groups() {
    let test = TestDatabase::migrated();
    let mut client = test.client();
    // More groups and details than a statement caches, in turn; then again in another statement.
    for _ in 0..2 {
        client
            .execute(
                "INSERT INTO redrive.dead_letters
                     (queue, kind, cause, error_class, error_message, error_detail, payload, enqueued_at)
                 SELECT 'orders', 'order', 'exhausted', 'E', 'failure ' || chr(97 + n % 26), 'caused by '
                        || chr(97 + n % 13) || repeat(' frame', 100), '{}', now()
                 FROM generate_series(0, 259) n",
                &[],
            )
            .unwrap();
    }
    let mixed: i64 = client
        .query_one(
            "SELECT count(*) FROM redrive.letters l JOIN redrive.groups g ON g.id = l.group_id
             WHERE g.title <> l.error_message OR l.error_detail NOT LIKE
                 'caused by ' || chr(97 + (ascii(right(l.error_message, 1)) - 97) % 13) || ' frame%'",
            &[],
        )
        .unwrap()
        .get(0);
    assert_eq!(mixed, 0);
    let groups = test
        .open()
        .dlq()
        .groups()
        .list(&GroupFilter::new())
        .unwrap();
    assert_eq!(groups.len(), 26);
    assert!(groups.iter().all(|group| group.open == 20));
    let details: i64 = client
        .query_one("SELECT count(*) FROM redrive.details", &[])
        .unwrap()
        .get(0);
    assert_eq!(details, 26, "one for each group, not for each letter");
}

#[test]
fn a_new_failure_in_many_workers_makes_one_group() {
    let test = TestDatabase::migrated();
    thread::scope(|scope| {
        for number in 0..8 {
            let mut client = test.client();
            scope.spawn(move || die(&mut client, "Timeout", &format!("after {number} ms")));
        }
    });
    assert_eq!(the_group(&test.open()).open, 8);
}

#[test]
fn the_next_statement_applies_a_new_redaction() {
    let test = TestDatabase::migrated();
    let mut client = test.client();
    let mut transaction = client.transaction().unwrap();
    let message = "card 4111111111111111";
    let write = "INSERT INTO redrive.dead_letters (queue, kind, cause, error_class, error_message, payload, enqueued_at)
                 VALUES ('orders', 'order', 'exhausted', 'E', $1, '{}', now()) RETURNING error_message";
    let kept: String = transaction.query_one(write, &[&message]).unwrap().get(0);
    assert_eq!(kept, message);
    transaction
        .execute(
            "INSERT INTO redrive.redactions (patterns) VALUES (ARRAY['[0-9]{16}'])",
            &[],
        )
        .unwrap();
    let kept: String = transaction.query_one(write, &[&message]).unwrap().get(0);
    assert_eq!(kept, "card [redacted]");
}
