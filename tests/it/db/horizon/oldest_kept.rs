//! The oldest transaction whose dead rows vacuum keeps.

use redrive_tests::prelude::*;

/// Returns the oldest transaction whose dead rows vacuum keeps.
fn oldest_kept(client: &mut impl GenericClient) -> Option<String> {
    let oldest = "SELECT redrive.oldest_kept_xid()::text";
    client.ask(oldest, &[])
}

#[test]
fn the_oldest_kept_transaction_is_that_of_any_session_or_prepared_transaction() {
    let (test, other) = (TestDatabase::migrated(), TestDatabase::empty());
    let (mut client, mut reader, mut writer) = (test.client(), test.client(), test.client());
    let mut elsewhere = other.client();
    let other_snapshot = snapshot(&mut elsewhere);
    assert_eq!(oldest_kept(&mut client), None);

    let mut held = snapshot(&mut reader);
    let xmin = "SELECT pg_snapshot_xmin(pg_current_snapshot())::xid::text";
    let xmin: String = held.ask(xmin, &[]);
    writer.sql("BEGIN");
    let xid = "SELECT pg_current_xact_id()::xid::text";
    let xid: String = writer.ask(xid, &[]);
    // The portal of a query keeps its snapshot until the next one.
    writer.sql("SELECT 1");
    assert_eq!(oldest_kept(&mut client), Some(xmin.clone()));
    // An owner without pg_monitor.
    let mut plain = client.transaction().unwrap();
    plain.sql(
        "CREATE ROLE redrive_tests_plain; GRANT USAGE ON SCHEMA redrive TO redrive_tests_plain; \
             GRANT EXECUTE ON FUNCTION redrive.oldest_kept_xid TO redrive_tests_plain; \
             SET LOCAL ROLE redrive_tests_plain",
    );
    assert_eq!(oldest_kept(&mut plain), Some(xmin));
    plain.rollback().unwrap();

    held.commit().unwrap();
    assert_eq!(oldest_kept(&mut client), Some(xid.clone()));
    let name = test.name();
    writer.sql(&format!("PREPARE TRANSACTION '{name}'"));
    assert_eq!(oldest_kept(&mut client), Some(xid));
    writer.sql(&format!("ROLLBACK PREPARED '{name}'"));
    assert_eq!(oldest_kept(&mut client), None);
    other_snapshot.commit().unwrap();
}
