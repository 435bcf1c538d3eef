//! The audit: every operation is in it with operator and reason, and no row changes.

use std::time::Duration;

use redrive::Operator;
use redrive::admin::AuditFilter;
use redrive::dlq::{GroupFilter, GroupState};
use redrive_tests::{TestDatabase, letters};

#[test]
fn an_operation_is_audited_with_operator_and_reason_newest_first() {
    let test = TestDatabase::migrated();
    let queue = test.queue("orders");
    let db = queue.database();
    letters(&queue, 1);
    assert!(db.admin().audit(&AuditFilter::new()).unwrap().is_empty());
    let group = db.dlq().groups().list(&GroupFilter::new()).unwrap()[0].id;
    let operator = Operator::new("maria@ops").reason("fixed\0 in 1.4");
    db.dlq()
        .groups()
        .set_state(group, GroupState::Resolved, &operator)
        .unwrap();
    db.dlq()
        .groups()
        .set_state(group, GroupState::Open, &Operator::default())
        .unwrap();
    let acts = db.admin().audit(&AuditFilter::new()).unwrap();
    let verbs: Vec<&str> = acts.iter().map(|operator| &*operator.verb).collect();
    assert_eq!(verbs, ["reopen_group", "resolve_group"]);
    assert_eq!(
        (acts[0].person.as_deref(), acts[0].reason.as_deref()),
        (None, None)
    );
    let resolved = &acts[1];
    assert_eq!(resolved.person.as_deref(), Some("maria@ops"));
    assert_eq!(resolved.reason.as_deref(), Some("fixed\u{fffd} in 1.4"));
    assert_eq!((resolved.letters, resolved.filter.is_none()), (0, true));
    assert_eq!(
        resolved.about.as_ref().expect("the group").get(),
        format!("{{\"group\": {group}}}")
    );
    assert!(!resolved.role.is_empty());

    assert_eq!(
        db.admin()
            .audit(&AuditFilter::new().verb("resolve_group"))
            .unwrap()
            .len(),
        1
    );
    assert_eq!(
        db.admin().audit(&AuditFilter::new().limit(1)).unwrap()[0].verb,
        "reopen_group"
    );
    let page = db
        .admin()
        .audit(&AuditFilter::new().before(acts[0].id))
        .unwrap();
    assert_eq!(page[0].id, resolved.id);
    assert_eq!(
        db.admin()
            .audit(&AuditFilter::new().since(Duration::from_hours(1)))
            .unwrap()
            .len(),
        2
    );
    assert_eq!(
        db.admin()
            .audit(&AuditFilter::new().since(Duration::ZERO))
            .unwrap()
            .len(),
        0
    );
}

#[test]
fn audit_rows_cannot_be_changed_or_deleted() {
    let test = TestDatabase::migrated();
    let mut client = test.client();
    client
        .execute(
            "SELECT redrive.record_act('test', 'me', NULL, NULL, 0)",
            &[],
        )
        .unwrap();
    for statement in [
        "UPDATE redrive.audit SET reason = 'another'",
        "DELETE FROM redrive.audit",
        "TRUNCATE redrive.audit",
    ] {
        let error = client.execute(statement, &[]).expect_err(statement);
        let message = error.as_db_error().expect("the server refuses").message();
        assert_eq!(message, "redrive: the audit is append-only", "{statement}");
    }
    assert_eq!(
        test.open()
            .admin()
            .audit(&AuditFilter::new())
            .unwrap()
            .len(),
        1
    );
}

#[test]
fn a_rolled_back_operation_is_not_audited() {
    let test = TestDatabase::migrated();
    let queue = test.queue("orders");
    letters(&queue, 1);
    let mut client = test.client();
    let mut transaction = client.transaction().unwrap();
    transaction
        .execute(
            "SELECT redrive.set_group_state(id, 'resolved') FROM redrive.groups",
            &[],
        )
        .unwrap();
    transaction.rollback().unwrap();
    assert!(
        queue
            .database()
            .admin()
            .audit(&AuditFilter::new())
            .unwrap()
            .is_empty()
    );
    let bad = client.execute("SELECT redrive.set_group_state(1, 'dead')", &[]);
    let error = bad.expect_err("no such state");
    assert!(
        error
            .as_db_error()
            .expect("refused")
            .message()
            .contains("expected open, acknowledged")
    );
}
