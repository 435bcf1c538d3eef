//! The hours of the day at which a policy ticks, as the database decides it.

use redrive::Operator;
use redrive::dlq::{LetterFilter, Policy, UtcHours};
use redrive_tests::{TestDatabase, letters};
use uuid::Uuid;

use super::tick;

#[test]
fn a_policy_ticks_from_its_first_hour_up_to_its_last_and_through_midnight() {
    let (_test, mut client) = TestDatabase::with_client();
    let asked = "SELECT array_agg(h.hour ORDER BY h.hour)
        FROM generate_series(0, 23) AS h (hour)
        WHERE redrive.is_hour_allowed($1, $2, h.hour)";
    let mut hours = |from: Option<i32>, to: Option<i32>| -> Vec<i32> {
        client.query_one(asked, &[&from, &to]).unwrap().get(0)
    };
    assert_eq!(hours(Some(9), Some(12)), [9, 10, 11]);
    assert_eq!(hours(Some(22), Some(2)), [0, 1, 22, 23]);
    assert_eq!(hours(Some(23), Some(0)), [23]);
    assert_eq!(hours(None, None).len(), 24);
}

#[test]
fn outside_its_hours_a_policy_waits() {
    let (test, queue) = TestDatabase::with_orders();
    let db = queue.database();
    let mut client = test.client();
    letters(&queue, 3);
    let now: i32 = client
        .query_one(
            "SELECT extract(hour FROM clock_timestamp() AT TIME ZONE 'UTC')::integer",
            &[],
        )
        .unwrap()
        .get(0);
    let hour = |plus: i32| u8::try_from((now + plus) % 24).unwrap();
    let policy = Policy::new("p", LetterFilter::new());
    // Hours that begin long after this one, so that the test cannot run into them.
    let closed = policy
        .clone()
        .hours(UtcHours::between(hour(3), hour(20)).unwrap());
    db.dlq()
        .policies()
        .set(&closed, &Operator::default())
        .unwrap();
    assert_eq!(tick(&mut client, Uuid::new_v4()), None);
    let open = policy.hours(UtcHours::between(hour(20), hour(3)).unwrap());
    db.dlq()
        .policies()
        .set(&open, &Operator::default())
        .unwrap();
    assert_eq!(tick(&mut client, Uuid::new_v4()), Some(("p".to_owned(), 3)));
}
