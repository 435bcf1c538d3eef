//! Exclusive tasks: each is run by one session at a time, and none waits for another task.

use postgres::error::SqlState;
use redrive_tests::TestDatabase;

/// The tasks that wait for a session that runs them, and a call of each.
const WAITING: [(&str, &str); 2] = [
    (
        "apply_retention",
        "SELECT redrive.apply_retention(5000, 'wait')",
    ),
    (
        "audit_counters",
        "SELECT count(*) FROM redrive.audit_counters()",
    ),
];

#[test]
fn a_task_waits_for_its_row_and_no_other_one() {
    let test = TestDatabase::migrated();
    let (mut holder, mut client) = (test.client(), test.client());
    client
        .batch_execute("SELECT redrive.set_retention(NULL, 'recovered', '1 day')")
        .unwrap();
    for (task, call) in WAITING {
        let mut held = holder.transaction().unwrap();
        held.execute(
            "SELECT FROM redrive.exclusive_tasks WHERE task = $1 FOR UPDATE",
            &[&task],
        )
        .unwrap();
        client.batch_execute("SET lock_timeout = '50ms'").unwrap();
        let error = client.batch_execute(call).expect_err(task);
        assert_eq!(error.code(), Some(&SqlState::LOCK_NOT_AVAILABLE), "{task}");
        held.rollback().unwrap();

        let mut held = holder.transaction().unwrap();
        held.execute(
            "SELECT FROM redrive.exclusive_tasks WHERE task <> $1 FOR UPDATE",
            &[&task],
        )
        .unwrap();
        client.batch_execute("SET lock_timeout = '5s'").unwrap();
        client.batch_execute(call).expect(task);
        held.rollback().unwrap();
    }
}
