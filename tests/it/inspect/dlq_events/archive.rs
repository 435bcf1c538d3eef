//! The statements that archive and delete old events.

use redrive_tests::prelude::*;

use super::changes::{SUCCESS, inserted};
use super::with_search_path;

// The statements are the specification and run unchanged.
const ARCHIVE: &str = "\
-- Archive old succeeded events
INSERT INTO dlq_events_archive
SELECT * FROM dlq_events
WHERE status = 'SUCCEEDED'
AND updated_at < NOW() - INTERVAL '30 days';";

const DELETE_OLD: &str = "\
DELETE FROM dlq_events
WHERE status = 'SUCCEEDED'
AND updated_at < NOW() - INTERVAL '30 days';";

#[test]
fn old_events_are_archived_and_deleted() {
    let test = TestDatabase::migrated();
    let mut client = with_search_path(&test);
    let [old, older, new] = [(); 3].map(|()| inserted(&mut client));
    for id in [old, older, new] {
        client.change(SUCCESS, &[&id]);
    }
    let age = "UPDATE redrive.dead_letters SET changed_at = now() - interval '31 days' WHERE id = ANY ($1)";
    test.client().change(age, &[&vec![old, older]]);
    assert_eq!(client.execute(ARCHIVE, &[]).unwrap(), 2);
    let archived = "SELECT concat_ws(' ', id, status, error_reason, payload ->> 'order')
         FROM dlq_events_archive ORDER BY id";
    let archived: Vec<String> = client.column(archived, &[]);
    let expected = [old, older].map(|id| format!("{id} SUCCEEDED gateway timeout 7"));
    assert_eq!(archived, expected);
    let deleted = client.execute(DELETE_OLD, &[]).unwrap();
    assert_eq!(deleted, 0, "they are archived");
    test.client().change(age, &[&vec![new]]);
    assert_eq!(client.execute(DELETE_OLD, &[]).unwrap(), 1);
    assert_eq!(scalar(&mut client, "SELECT count(*) FROM dlq_events"), 0);
    let acts = "SELECT letters || (about ->> 'action') FROM audit WHERE verb = 'prune' ORDER BY id";
    let acts: Vec<String> = client.column(acts, &[]);
    assert_eq!(acts, ["2archive", "1delete"]);
    no_drift(&test.open());
}

#[test]
fn a_payload_that_jsonb_cannot_hold_is_a_string_in_the_archive_too() {
    let test = TestDatabase::migrated();
    let mut client = with_search_path(&test);
    let id = inserted(&mut client);
    let odd = r#"UPDATE redrive.dead_letters SET payload = '"\u0000"', raw = NULL, state = 'recovered', retry_after = NULL WHERE id = $1"#;
    test.client().change(odd, &[&id]);
    let before: String = client.ask("SELECT payload #>> '{}' FROM dlq_events", &[]);
    client.sql("INSERT INTO dlq_events_archive SELECT * FROM dlq_events");
    let after: String = client.ask("SELECT payload #>> '{}' FROM dlq_events_archive", &[]);
    assert_eq!((&*before, &*after), (r#""\u0000""#, r#""\u0000""#));
}
