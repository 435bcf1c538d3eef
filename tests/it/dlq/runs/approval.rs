//! Protections: approvals of large runs, and the roles that may redrive.

use postgres::Client;
use postgres::error::SqlState;
use redrive::dlq::runs::{DriveStatus, RunChange, RunId, RunOptions, RunState};
use redrive::dlq::{Approver, LetterFilter, Protection, RedriveOptions};
use redrive::{Database, Operator};
use redrive_tests::{Sql, TestDatabase, letters, scalar};

use super::{drive, run, start, unthrottled};

fn protect(db: &Database, protection: &Protection) {
    db.dlq()
        .protect(protection, &Operator::new("owner"))
        .unwrap();
}

fn approve(test: &TestDatabase, id: RunId, name: &str) -> redrive::Result<Option<RunChange>> {
    test.open().dlq().runs().approve(id, &Operator::new(name))
}

/// Returns the number of letters that were sent.
fn sent(test: &TestDatabase) -> i64 {
    let count = "SELECT count(*) FROM redrive.dead_letters WHERE state = 'redriving'";
    scalar(&mut test.client(), count)
}

#[test]
fn a_large_run_waits_for_the_approval_of_a_second_operator() {
    let (test, queue) = TestDatabase::with_orders();
    letters(&queue, 5);
    let db = queue.database();
    protect(db, &Protection::new("orders").approve_above(4));
    let mut driver = start(&test, &unthrottled());
    let id = driver.run();
    assert_eq!(run(&test, id).state, RunState::Unapproved);
    let (status, _) = drive(&mut driver);
    assert_eq!(status, DriveStatus::Ended(RunState::Unapproved));
    assert!(
        db.dlq().runs().drive(id).unwrap().is_none(),
        "no worker can drive it"
    );
    let resumed = db.dlq().runs().resume(id, &Operator::new("maria@ops-1"));
    assert_eq!(resumed.unwrap().unwrap().became, RunState::Unapproved);
    for own in ["maria@ops-1", ""] {
        approve(&test, id, own).unwrap_err();
    }
    assert_eq!(
        (run(&test, id).state, sent(&test)),
        (RunState::Unapproved, 0)
    );
    let change = approve(&test, id, "ana@ops-2").unwrap().unwrap();
    assert_eq!(
        (change.was, change.became),
        (RunState::Unapproved, RunState::Running)
    );
    let mut driver = db.dlq().runs().drive(id).unwrap().expect("an approved run");
    drive(&mut driver);
    let done = run(&test, id);
    assert_eq!(
        (done.sent, done.approved_by.as_deref()),
        (5, Some("ana@ops-2"))
    );
    assert!(done.approved_at.is_some());
    assert_eq!(
        approve(&test, id, "ana@ops-2").unwrap().unwrap().became,
        done.state
    );
    let audited =
        "SELECT count(*) FROM redrive.audit WHERE verb = 'approve_run' AND person = 'ana@ops-2'";
    assert_eq!(scalar(&mut test.client(), audited), 1);
}

#[test]
fn only_redrives_above_the_limit_need_an_approval() {
    let (test, queue) = TestDatabase::with_orders();
    let ids = letters(&queue, 5);
    letters(&test.queue("mails"), 9);
    let db = queue.database();
    protect(db, &Protection::new("orders").approve_above(4));
    let redrive = |filter: &LetterFilter| db.dlq().redrive(filter, &Operator::new("maria"));
    redrive(&LetterFilter::new().queue("orders")).unwrap_err();
    let batch = LetterFilter::new().queue("orders").limit(2);
    redrive(&batch).unwrap_err();
    assert_eq!(sent(&test), 0, "a part of what matches is not less");
    redrive(&LetterFilter::new().queue("mails")).unwrap();
    assert_eq!(sent(&test), 9, "another queue");
    redrive(&LetterFilter::new().ids(ids[..1].iter().copied())).unwrap();
    assert_eq!(sent(&test), 10);
    let small = db
        .dlq()
        .runs()
        .create(
            &LetterFilter::new().queue("orders"),
            &RunOptions::new(),
            &Operator::new("maria"),
        )
        .unwrap()
        .unwrap();
    assert_eq!(
        (small.letters, run(&test, small.id).state),
        (4, RunState::Running)
    );
    let mut client = test.client();
    let send = "SELECT redrive.send_back(array_agg(id), '{}') FROM redrive.dead_letters WHERE queue = 'orders' AND state = 'open'";
    protect(db, &Protection::new("orders").approve_above(3));
    let error = client.query(send, &[]).unwrap_err();
    let code = Some(&SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE);
    assert_eq!(error.code(), code, "the function that sends checks it");
    assert!(
        db.dlq()
            .unprotect("orders", &Operator::new("owner"))
            .unwrap()
    );
    assert!(
        !db.dlq()
            .unprotect("orders", &Operator::new("owner"))
            .unwrap()
    );
    db.dlq()
        .redrive_with(
            &LetterFilter::new(),
            &RedriveOptions::new(),
            &Operator::new("maria"),
        )
        .unwrap();
    assert_eq!(sent(&test), 14);
}

/// Two operators, as roles that exist for this test.
struct Roles {
    owner: Client,
    names: [String; 2],
}

impl Roles {
    fn new(test: &TestDatabase) -> Roles {
        let mut owner = test.client();
        let names = ["oncall", "trainee"].map(|name| format!("{name}_{}", test.name()));
        for name in &names {
            let create = format!(
                "CREATE ROLE {name} LOGIN; SELECT redrive.grant_role('{name}', 'operator')"
            );
            owner.sql(&create);
        }
        Roles { owner, names }
    }
}

impl Drop for Roles {
    fn drop(&mut self) {
        for name in &self.names {
            _ = self
                .owner
                .batch_execute(&format!("DROP OWNED BY {name}; DROP ROLE {name}"));
        }
    }
}

/// A session of a role.
fn session(test: &TestDatabase, role: &str) -> Client {
    let mut client = test.client();
    client.sql(&format!("SET SESSION AUTHORIZATION {role}"));
    client
}

#[test]
fn an_approval_can_be_required_from_another_role() {
    let (test, queue) = TestDatabase::with_orders();
    letters(&queue, 2);
    let roles = Roles::new(&test);
    let protection = Protection::new("orders")
        .approve_above(0)
        .approver(Approver::OtherRole);
    protect(queue.database(), &protection);
    assert_eq!(queue.database().dlq().protections().unwrap(), [protection]);
    let [oncall, trainee] = [0, 1].map(|n| session(&test, &roles.names[n]));
    let (mut oncall, mut trainee) = (oncall, trainee);
    let create = "SELECT id FROM redrive.create_run('{}', person => 'maria')";
    let id = scalar(&mut trainee, create);
    let approve = "SELECT became FROM redrive.change_run($1, 'approve', NULL, 'ana')";
    let error = trainee.query_one(approve, &[&id]).unwrap_err();
    assert_eq!(
        error.code(),
        Some(&SqlState::INSUFFICIENT_PRIVILEGE),
        "another name only"
    );
    let became: String = oncall.query_one(approve, &[&id]).unwrap().get(0);
    assert_eq!(became, "running");
    let role = "SELECT approved_role FROM redrive.redrive_runs";
    let role: String = test.client().query_one(role, &[]).unwrap().get(0);
    assert_eq!(role, roles.names[0]);
}

#[test]
fn only_the_listed_roles_may_redrive_a_protected_queue() {
    let (test, queue) = TestDatabase::with_orders();
    letters(&queue, 2);
    letters(&test.queue("mails"), 1);
    let roles = Roles::new(&test);
    protect(
        queue.database(),
        &Protection::new("orders").role(&roles.names[0]),
    );
    let mut trainee = session(&test, &roles.names[1]);
    for refused in [
        "SELECT redrive.redrive('{\"queue\": \"orders\"}')",
        "SELECT redrive.create_run('{}')",
        "SELECT redrive.set_policy('p', '{\"queue\": \"orders\"}', '1 hour')",
        "SELECT redrive.set_policy('p', '{}', '1 hour')",
        "UPDATE redrive.dlq_events SET status = 'PENDING' WHERE status = 'FAILED_PERMANENTLY' AND event_type = 'order'",
        "SELECT redrive.set_protection('orders', 1)",
        "SELECT redrive.remove_protection('orders')",
        "DELETE FROM redrive.protections",
    ] {
        let error = trainee.query(refused, &[]).unwrap_err();
        assert_eq!(
            error.code(),
            Some(&SqlState::INSUFFICIENT_PRIVILEGE),
            "{refused}: {error:?}"
        );
    }
    assert_eq!(sent(&test), 0);
    let redriven = "SELECT redrive.redrive('{\"queue\": \"mails\"}')";
    assert_eq!(scalar(&mut trainee, redriven), 1, "another queue");
    trainee
        .query(
            "SELECT redrive.set_policy('p', '{\"queue\": \"mails\"}', '1 hour')",
            &[],
        )
        .unwrap();
    let mut oncall = session(&test, &roles.names[0]);
    let redriven = "SELECT redrive.redrive('{\"queue\": \"orders\"}')";
    assert_eq!(scalar(&mut oncall, redriven), 2);
}

#[test]
fn a_protection_must_require_something() {
    let (_test, db) = TestDatabase::opened();
    let owner = Operator::new("owner");
    for nothing in [
        Protection::new("orders"),
        Protection::new("orders").role("no_such_role"),
        Protection::new(" orders").approve_above(1),
    ] {
        let error = db.dlq().protect(&nothing, &owner).unwrap_err();
        assert!(error.is_invalid(), "{nothing:?}: {error}");
    }
    assert!(db.dlq().protections().unwrap().is_empty());
}
