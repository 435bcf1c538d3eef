//! The death of a claimed event.

use redrive_tests::TestDatabase;

use super::changes::{GIVE_UP, claimed, inserted};
use super::{event, with_search_path};

#[test]
fn the_death_of_a_claimed_event_replaces_the_columns_of_an_earlier_one() {
    let test = TestDatabase::migrated();
    let mut client = with_search_path(&test);
    let id = inserted(&mut client);
    assert_eq!(claimed(&mut client), [id]);
    client
        .batch_execute(
            "UPDATE dead_letters
             SET failure_key = 'stale', unique_key = 'stale', group_key = 'stale', host = 'stale',
                 version = 'stale', priority = 99,
                 headers = '{\"stale\": \"yes\"}', pid = 99, max_attempts = 99, attempts = 99, crashes = 99
             WHERE state = 'redriving'",
        )
        .unwrap();
    client.execute(GIVE_UP, &[&id]).unwrap();
    assert_eq!(event(&test, id).0, "FAILED_PERMANENTLY");
    let row = client
        .query_one(
            "SELECT coalesce(array_agg(c.key ORDER BY c.key), '{}')
             FROM dead_letters l
             CROSS JOIN LATERAL jsonb_each_text(to_jsonb(l)) AS c
             WHERE c.key NOT IN ('history', 'earlier_attempts') AND (c.value LIKE '%stale%' OR c.value = '99')",
            &[],
        )
        .unwrap();
    assert_eq!(row.get::<_, Vec<String>>(0), Vec::<String>::new());
}
