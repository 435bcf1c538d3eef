//! The audit: every act is in it with who and why, and nothing in it ever changes.

use std::time::Duration;

use redrive::{Act, Audit, GroupState, Groups};
use redrive_tests::{TestDatabase, letters};

#[test]
fn an_act_is_kept_with_who_and_why_and_read_newest_first() {
    let test = TestDatabase::migrated();
    let queue = test.queue("orders");
    let db = queue.database();
    letters(&queue, 1);
    assert!(db.audit(&Audit::all()).unwrap().is_empty());
    let group = db.groups(&Groups::all()).unwrap()[0].id;
    let act = Act::new().person("maria@ops").why("fixed\0 in 1.4");
    db.mark_group(group, GroupState::Resolved, &act).unwrap();
    db.mark_group(group, GroupState::Open, &Act::new()).unwrap();
    let acts = db.audit(&Audit::all()).unwrap();
    let verbs: Vec<&str> = acts.iter().map(|act| &*act.verb).collect();
    assert_eq!(verbs, ["reopen_group", "resolve_group"]);
    assert_eq!(
        (acts[0].person.as_deref(), acts[0].why.as_deref()),
        (None, None)
    );
    let resolved = &acts[1];
    assert_eq!(resolved.person.as_deref(), Some("maria@ops"));
    assert_eq!(resolved.why.as_deref(), Some("fixed\u{fffd} in 1.4"));
    assert_eq!((resolved.letters, resolved.filter.is_none()), (0, true));
    assert_eq!(
        resolved.about.as_ref().expect("the group").get(),
        format!("{{\"group\": {group}}}")
    );
    assert!(!resolved.role.is_empty());

    assert_eq!(
        db.audit(&Audit::all().verb("resolve_group")).unwrap().len(),
        1
    );
    assert_eq!(
        db.audit(&Audit::all().limit(1)).unwrap()[0].verb,
        "reopen_group"
    );
    let page = db.audit(&Audit::all().before(acts[0].id)).unwrap();
    assert_eq!(page[0].id, resolved.id);
    assert_eq!(
        db.audit(&Audit::all().since(Duration::from_hours(1)))
            .unwrap()
            .len(),
        2
    );
    assert_eq!(
        db.audit(&Audit::all().since(Duration::ZERO)).unwrap().len(),
        0
    );
}

#[test]
fn nothing_in_the_audit_changes_or_goes() {
    let test = TestDatabase::migrated();
    let mut client = test.client();
    client
        .execute(
            "SELECT redrive.record_act('test', 'me', NULL, NULL, 0)",
            &[],
        )
        .unwrap();
    for statement in [
        "UPDATE redrive.audit SET why = 'another'",
        "DELETE FROM redrive.audit",
        "TRUNCATE redrive.audit",
    ] {
        let error = client.execute(statement, &[]).expect_err(statement);
        let message = error.as_db_error().expect("the server refuses").message();
        assert_eq!(message, "redrive: the audit is append-only", "{statement}");
    }
    assert_eq!(test.open().audit(&Audit::all()).unwrap().len(), 1);
}

#[test]
fn an_act_that_is_rolled_back_is_not_in_it() {
    let test = TestDatabase::migrated();
    let queue = test.queue("orders");
    letters(&queue, 1);
    let mut client = test.client();
    let mut transaction = client.transaction().unwrap();
    transaction
        .execute(
            "SELECT redrive.mark_group(id, 'resolved') FROM redrive.groups",
            &[],
        )
        .unwrap();
    transaction.rollback().unwrap();
    assert!(queue.database().audit(&Audit::all()).unwrap().is_empty());
    let bad = client.execute("SELECT redrive.mark_group(1, 'dead')", &[]);
    let error = bad.expect_err("no such state");
    assert!(
        error
            .as_db_error()
            .expect("refused")
            .message()
            .contains("there are open, acknowledged")
    );
}
