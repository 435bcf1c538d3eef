//! The hours of the day at which a policy ticks, as the database decides it.

use redrive_tests::TestDatabase;

#[test]
fn a_policy_ticks_from_its_first_hour_up_to_its_last_and_through_midnight() {
    let test = TestDatabase::migrated();
    let mut client = test.client();
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
