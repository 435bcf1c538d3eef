//! Protections: approvals of large runs, and the roles that may redrive.

use redrive_tests::prelude::*;

use super::{change, drive, run, start, unthrottled};

fn protect(db: &Database, protection: &Protection) {
    let protected = db.dlq().protect(protection, &Operator::new("owner"));
    protected.unwrap();
}

fn approve(test: &TestDatabase, id: RunId, name: &str) -> redrive::Result<Option<RunChange>> {
    test.open()
        .dlq()
        .runs()
        .change(id, RunAction::Approve, &Operator::new(name))
}

/// Returns the number of letters that were sent.
fn sent(test: &TestDatabase) -> i64 {
    let count = "SELECT count(*) FROM redrive.dead_letters WHERE state = 'redriving'";
    scalar(&mut test.client(), count)
}

#[test]
fn a_large_run_waits_for_the_approval_of_a_second_operator() {
    let (test, queue, _) = TestDatabase::with_letters(5);
    let db = queue.database();
    protect(db, &Protection::new("orders").approve_above(4));
    let mut driver = start(&test, &unthrottled());
    let id = driver.run();
    assert_eq!(run(&test, id).state, RunState::Unapproved);
    let status = drive(&mut driver);
    assert_eq!(status, DriveStatus::Ended(RunState::Unapproved));
    let driven = db.dlq().runs().drive(id).unwrap();
    assert!(driven.is_none(), "no worker can drive it");
    assert_eq!(
        change(&test, RunAction::Resume, id).became,
        RunState::Unapproved
    );
    for own in ["maria@ops-1", ""] {
        approve(&test, id, own).unwrap_err();
    }
    assert_eq!(run(&test, id).state, RunState::Unapproved);
    assert_eq!(sent(&test), 0);
    let approved = approve(&test, id, "ana@ops-2").unwrap().unwrap();
    assert_eq!(approved.was, RunState::Unapproved);
    assert_eq!(approved.became, RunState::Running);
    let mut driver = super::driver(&test, id);
    drive(&mut driver);
    let done = run(&test, id);
    assert_eq!(done.sent, 5);
    assert_eq!(done.approved_by.as_deref(), Some("ana@ops-2"));
    assert!(done.approved_at.is_some());
    let again = approve(&test, id, "ana@ops-2").unwrap().unwrap();
    assert_eq!(again.became, done.state);
    let audited =
        "SELECT count(*) FROM redrive.audit WHERE verb = 'approve_run' AND person = 'ana@ops-2'";
    assert_eq!(scalar(&mut test.client(), audited), 1);
}

#[test]
fn only_redrives_above_the_limit_need_an_approval() {
    let (test, queue, ids) = TestDatabase::with_letters(5);
    letters(&test.queue("mails"), 9);
    let db = queue.database();
    protect(db, &Protection::new("orders").approve_above(4));
    let redrive = |filter: &LetterFilter| db.dlq().redrive(filter, &Operator::new("maria"));
    redrive(&of_orders()).unwrap_err();
    let batch = of_orders().limit(2);
    redrive(&batch).unwrap_err();
    assert_eq!(sent(&test), 0, "a part of what matches is not less");
    redrive(&LetterFilter::new().queue("mails")).unwrap();
    assert_eq!(sent(&test), 9, "another queue");
    redrive(&LetterFilter::new().ids(ids[..1].iter().copied())).unwrap();
    assert_eq!(sent(&test), 10);
    let runs = db.dlq().runs();
    let small = runs.create(&of_orders(), &RunOptions::new(), &Operator::new("maria"));
    let small = small.unwrap().expect("a run");
    assert_eq!(small.letters, 4);
    assert_eq!(run(&test, small.id).state, RunState::Running);
    let send = "SELECT redrive.send_back(array_agg(id), '{}') FROM redrive.dead_letters WHERE queue = 'orders' AND state = 'open'";
    protect(db, &Protection::new("orders").approve_above(3));
    // The function that sends checks it.
    test.client().refuses(send, &[], "55000");
    for removed in [true, false] {
        let unprotected = db.dlq().unprotect("orders", &Operator::new("owner"));
        assert_eq!(unprotected.unwrap(), removed);
    }
    redrive(&LetterFilter::new()).unwrap();
    assert_eq!(sent(&test), 14);
}

/// Two operators.
fn roles(test: &TestDatabase) -> [Role; 2] {
    ["oncall", "trainee"].map(|name| test.role_of(name, &["operator"]))
}

#[test]
fn only_the_listed_roles_may_redrive_a_protected_queue() {
    let (test, queue, _) = TestDatabase::with_letters(2);
    letters(&test.queue("mails"), 1);
    let [oncall_role, trainee_role] = roles(&test);
    let protection = Protection::new("orders").role(oncall_role.name());
    protect(queue.database(), &protection);
    oncall_role.client().sql(
        "SELECT redrive.set_policy('paused', '{\"queue\": \"orders\"}', '1 hour'); SELECT redrive.pause_schedule('paused')",
    );
    let mut trainee = trainee_role.client();
    for refused in [
        "SELECT redrive.redrive('{\"queue\": \"orders\"}')",
        "SELECT redrive.create_run('{}')",
        "SELECT redrive.set_policy('p', '{\"queue\": \"orders\"}', '1 hour')",
        "SELECT redrive.set_policy('p', '{}', '1 hour')",
        "SELECT redrive.pause_schedule('paused', false)",
        "UPDATE redrive.dlq_events SET status = 'PENDING' WHERE status = 'FAILED_PERMANENTLY' AND event_type = 'order'",
        "SELECT redrive.set_protection('orders', 1)",
        "SELECT redrive.remove_protection('orders')",
        "DELETE FROM redrive.protections",
    ] {
        trainee.refuses(refused, &[], "42501");
    }
    assert_eq!(sent(&test), 0);
    let redriven = "SELECT redrive.redrive('{\"queue\": \"mails\"}')";
    assert_eq!(scalar(&mut trainee, redriven), 1, "another queue");
    trainee.sql("SELECT redrive.set_policy('p', '{\"queue\": \"mails\"}', '1 hour')");
    let mut oncall = oncall_role.client();
    let redriven = "SELECT redrive.redrive('{\"queue\": \"orders\"}')";
    assert_eq!(scalar(&mut oncall, redriven), 2);
}

#[test]
fn a_policy_redrives_no_more_than_its_role_could() {
    let (test, queue, _) = TestDatabase::with_letters(3);
    let [oncall_role, trainee_role] = roles(&test);
    // The protections are newer than the policies.
    let set = "SELECT redrive.set_policy('p', '{\"queue\": \"orders\"}', '1 hour', batch => 1)";
    trainee_role.client().sql(set);
    let trigger = "SELECT t.letters FROM redrive.trigger_schedule('p') t";
    let limited = Protection::new("orders").role(oncall_role.name());
    for (protection, set_again, sent) in [
        (limited.clone(), false, 0),
        (limited.clone().approve_above(2), true, 0),
        (limited.clone().approve_above(3), false, 1),
        (limited.approve_above(u64::MAX), false, 1),
    ] {
        protect(queue.database(), &protection);
        let mut oncall = oncall_role.client();
        if set_again {
            oncall.sql(set);
        }
        assert_eq!(scalar(&mut oncall, trigger), sent, "{protection:?}");
    }
}
