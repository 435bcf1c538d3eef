//! A tick runs once, in one process.

use std::sync::{Arc, Barrier};
use std::thread;
use std::time::SystemTime;

use redrive::Operator;
use redrive::dlq::{LetterFilter, LetterState, Policy, PolicyMode};
use redrive_tests::{Sql, TestDatabase, letters, letters_in, scalar, statement};
use uuid::Uuid;

use super::{HOUR, ids, later, status, tick};

#[test]
fn eight_processes_run_a_tick_once() {
    let (test, queue) = TestDatabase::with_orders();
    letters(&queue, 90);
    let policy = Policy::new("p", LetterFilter::new()).every(HOUR);
    queue
        .database()
        .dlq()
        .policies()
        .set(&policy, &Operator::default())
        .unwrap();
    for round in 1..=3_i64 {
        let barrier = Arc::new(Barrier::new(8));
        let racers: Vec<_> = (0..8)
            .map(|_| {
                let (mut client, barrier) = (test.client(), Arc::clone(&barrier));
                thread::spawn(move || {
                    barrier.wait();
                    tick(&mut client, Uuid::new_v4())
                })
            })
            .collect();
        let ran: Vec<i64> = racers
            .into_iter()
            .filter_map(|racer| racer.join().unwrap())
            .map(|(_, letters)| letters)
            .collect();
        let expected: &[i64] = match round {
            1 => &[50],
            2 => &[40],
            _ => &[0],
        };
        assert_eq!(ran, expected, "round {round}");
        let mut client = test.client();
        let jobs = scalar(&mut client, "SELECT count(*) FROM redrive.jobs");
        assert_eq!(jobs, [50, 90, 90][usize::try_from(round).unwrap() - 1]);
        client.sql("UPDATE redrive.policies SET next_at = clock_timestamp(), lease_until = clock_timestamp()");
    }
}

#[test]
fn a_policy_stays_with_its_holder_until_the_lease_expires() {
    let (test, queue) = TestDatabase::with_orders();
    let db = queue.database();
    let mut client = test.client();
    letters(&queue, 100);
    let policy = Policy::new("p", LetterFilter::new()).batch(10).every(HOUR);
    db.dlq()
        .policies()
        .set(&policy, &Operator::default())
        .unwrap();
    let (one, other) = (Uuid::new_v4(), Uuid::new_v4());
    assert_eq!(tick(&mut client, one), Some(("p".to_owned(), 10)));
    assert_eq!(tick(&mut client, one), None, "it is not due again");
    later(&mut client, HOUR);
    assert_eq!(tick(&mut client, other), None, "it belongs to the first");
    assert_eq!(tick(&mut client, one), Some(("p".to_owned(), 10)));
    assert_eq!(
        (status(db, "p").term, status(db, "p").holder),
        (1, Some(one))
    );
    // A renewal keeps it; without one the next process takes it.
    let age = "UPDATE redrive.policies SET lease_until = clock_timestamp() + interval '1 second'";
    client.sql(age);
    assert_eq!(tick(&mut client, one), None);
    later(&mut client, HOUR);
    let left: bool = client
        .query_one(
            "SELECT lease_until > clock_timestamp() + interval '40 seconds' FROM redrive.policies",
            &[],
        )
        .unwrap()
        .get(0);
    assert!(left, "renewed");
    client.sql("UPDATE redrive.policies SET lease_until = clock_timestamp() - interval '1 second'");
    assert_eq!(tick(&mut client, other), Some(("p".to_owned(), 10)));
    assert_eq!(
        (status(db, "p").term, status(db, "p").holder),
        (2, Some(other))
    );
    later(&mut client, HOUR);
    assert_eq!(tick(&mut client, one), None, "it lost it");
    assert_eq!(status(db, "p").sent, 30);
}

#[test]
fn a_process_killed_in_a_tick_leaves_no_change() {
    let (test, queue) = TestDatabase::with_orders();
    let db = queue.database();
    let dead = letters(&queue, 60);
    db.dlq()
        .policies()
        .set(&Policy::new("p", LetterFilter::new()), &Operator::default())
        .unwrap();
    let mut killed = test.client();
    let mut transaction = killed.transaction().unwrap();
    assert_eq!(
        tick(&mut transaction, Uuid::new_v4()),
        Some(("p".to_owned(), 50))
    );
    // Another process does not wait for it.
    let mut client = test.client();
    client.sql("SET lock_timeout = '2s'");
    assert_eq!(tick(&mut client, Uuid::new_v4()), None);
    let pid: i32 = transaction
        .query_one("SELECT pg_backend_pid()", &[])
        .unwrap()
        .get(0);
    client
        .query("SELECT pg_terminate_backend($1, 60000)", &[&pid])
        .unwrap();
    drop(transaction);
    assert_eq!(letters_in(db, "orders", LetterState::Open), 60);
    assert_eq!(
        tick(&mut client, Uuid::new_v4()),
        Some(("p".to_owned(), 50))
    );
    assert_eq!(
        ids(&mut client, "l.state = 'redriving'"),
        dead[..50].iter().copied().collect()
    );
}

#[test]
fn a_dry_run_reports_and_changes_nothing() {
    let (test, queue) = TestDatabase::with_orders();
    let db = queue.database();
    let mut client = test.client();
    letters(&queue, 7);
    let policy = Policy::new("p", LetterFilter::new()).batch(5).every(HOUR);
    db.dlq()
        .policies()
        .set(&policy.mode(PolicyMode::DryRun), &Operator::default())
        .unwrap();
    let one = Uuid::new_v4();
    assert_eq!(tick(&mut client, one), Some(("p".to_owned(), 5)));
    assert_eq!(letters_in(db, "orders", LetterState::Open), 7);
    let policy = status(db, "p");
    assert_eq!(
        (policy.mode, policy.last_letters, policy.sent),
        (PolicyMode::DryRun, 5, 0)
    );
    let row = client
        .query_one(
            "SELECT letters, about FROM redrive.audit WHERE verb = 'policy'",
            &[],
        )
        .unwrap();
    let about: serde_json::Value = row.get("about");
    assert_eq!((row.get("letters"), &about["letters"]), (0_i64, &5.into()));

    // A paused policy has no ticks; an active one redrives.
    let operator = Operator::new("maria@ops-1").reason("looks good");
    assert!(
        db.dlq()
            .policies()
            .set_mode("p", PolicyMode::Paused, &operator)
            .unwrap()
    );
    later(&mut client, HOUR);
    assert_eq!(tick(&mut client, one), None);
    assert!(
        db.dlq()
            .policies()
            .set_mode("p", PolicyMode::Active, &operator)
            .unwrap()
    );
    assert_eq!(tick(&mut client, one), Some(("p".to_owned(), 5)));
    assert_eq!(letters_in(db, "orders", LetterState::Redriving), 5);
    assert!(db.dlq().policies().remove("p", &operator).unwrap());
    assert!(!db.dlq().policies().remove("p", &operator).unwrap());
    assert!(
        !db.dlq()
            .policies()
            .set_mode("p", PolicyMode::Paused, &operator)
            .unwrap()
    );
    let verbs: Vec<String> = client
        .query("SELECT verb FROM redrive.audit WHERE person = 'maria@ops-1' AND reason = 'looks good' ORDER BY id", &[])
        .map(|rows| rows.iter().map(|row| row.get(0)).collect())
        .unwrap();
    assert_eq!(
        verbs,
        ["set_policy_mode", "set_policy_mode", "remove_policy"]
    );
}

#[test]
fn a_failing_policy_does_not_stop_the_others() {
    let (test, queue) = TestDatabase::with_orders();
    let db = queue.database();
    let mut client = test.client();
    letters(&queue, 4);
    for name in ["broken", "good"] {
        db.dlq()
            .policies()
            .set(
                &Policy::new(name, LetterFilter::new()),
                &Operator::default(),
            )
            .unwrap();
    }
    client.sql("UPDATE redrive.policies SET filter = '{\"died_from\": \"nonsense\"}' WHERE name = 'broken'");
    let one = Uuid::new_v4();
    let row = client
        .query_one(statement("run_policies"), &[&one, &60_000_i64])
        .unwrap();
    assert_eq!(row.get::<_, &str>("policy"), "broken");
    assert!(row.get::<_, &str>("error").contains("nonsense"));
    assert_eq!(tick(&mut client, one), Some(("good".to_owned(), 4)));
    let broken = status(db, "broken");
    assert!(
        broken
            .last_trouble
            .is_some_and(|trouble| trouble.contains("nonsense"))
    );
    assert!(
        broken.next_at < SystemTime::now() + HOUR / 2,
        "trouble is tried again soon"
    );
}
