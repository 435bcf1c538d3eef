//! The archive: complete, and never a letter lost on the way.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use postgres::error::SqlState;
use redrive::dlq::{DeathCause, ForeignFailure, LetterFilter, LetterState, RetentionRule};
use redrive::{Failure, Job, JobId, Operator};
use redrive_tests::{
    Order, SOON, TestDatabase, drained, letters, letters_in, statement, stop, wait_until, worker,
};

use super::{DAY, count, make};

#[test]
fn an_archived_letter_is_complete() {
    let test = TestDatabase::migrated();
    let queue = test.queue("orders");
    let (db, mut client) = (queue.database().clone(), test.client());
    let detail = format!("at step one\n{}", "backtrace ".repeat(100));
    let job = queue.enqueue(&Order { number: 7 }).unwrap();
    let dying = worker(&queue)
        .version("1.4.2")
        .handle({
            let detail = detail.clone();
            move |_: &Job<Order>| Err(Failure::reject("broken").detail(&*detail))
        })
        .start()
        .unwrap();
    drained(&queue);
    stop(dying);
    let foreign = ForeignFailure::new(
        "kafka:orders",
        "3/17",
        "orders",
        "order",
        b"\xff\0{broken".as_slice(),
    )
    .header("trace", "abc")
    .error("ParseError", "no JSON");
    db.dlq().capture(&foreign).unwrap();
    let row = client
        .query_one(
            "SELECT detail_id IS NOT NULL FROM redrive.dead_letters WHERE id = $1",
            &[&job.get()],
        )
        .unwrap();
    assert!(
        row.get::<_, bool>(0),
        "the detail is stored beside the letter"
    );
    db.dlq()
        .discard(&LetterFilter::new(), &Operator::default().reason("enough"))
        .unwrap();
    let rule = RetentionRule::archive(LetterState::Discarded, Duration::ZERO);
    db.dlq()
        .retention()
        .set(&rule, &Operator::default())
        .unwrap();
    assert_eq!(db.dlq().retention().apply(&Operator::default()).unwrap(), 2);

    let archived = db.dlq().archived(&LetterFilter::new()).unwrap();
    let (dead, foreign) = (&archived[0].letter, &archived[1].letter);
    assert_eq!(
        (dead.id, &*dead.queue, &*dead.kind),
        (job, "orders", "order")
    );
    assert_eq!(
        (dead.state, dead.cause),
        (LetterState::Discarded, DeathCause::Rejected)
    );
    assert_eq!(dead.discard_reason.as_deref(), Some("enough"));
    assert_eq!(&*dead.error_message, "broken");
    assert_eq!(dead.version.as_deref(), Some("1.4.2"));
    assert_eq!(dead.error_detail.as_deref(), Some(&*detail));
    assert_eq!(
        dead.payload.as_ref().map(|json| json.get()),
        Some(r#"{"number":7}"#)
    );
    assert_eq!(dead.history[0].error_message.as_deref(), Some("broken"));
    assert!(dead.raw.is_none());
    assert_eq!(foreign.raw.as_deref(), Some(&b"\xff\0{broken"[..]));
    assert_eq!(
        (foreign.source.as_deref(), foreign.position.as_deref()),
        (Some("kafka:orders"), Some("3/17"))
    );
    assert_eq!(
        foreign.headers.as_ref().map(|json| json.get()),
        Some(r#"{"trace": "abc"}"#)
    );
    assert!(foreign.payload.is_none());
    // In pages, and by queue.
    let listed = |filter: LetterFilter| db.dlq().archived(&filter).unwrap().len();
    assert_eq!(listed(LetterFilter::new().queue("orders").after(job)), 1);
    assert_eq!(listed(LetterFilter::new().queue("mails")), 0);
}

#[test]
fn a_crash_leaves_a_letter_in_the_table_or_in_the_archive() {
    let test = TestDatabase::migrated();
    let (db, mut client) = (test.open(), test.client());
    make(&mut client, "q", LetterState::Recovered, 10, 20);
    db.dlq()
        .retention()
        .set(
            &RetentionRule::archive(LetterState::Recovered, DAY),
            &Operator::default(),
        )
        .unwrap();
    let places = "SELECT 100 * (SELECT count(*) FROM redrive.dead_letters) + (SELECT count(*) FROM redrive.archived_letters)";
    let mut killed = test.client();
    let mut transaction = killed.transaction().unwrap();
    let nobody: Option<&str> = None;
    let taken: i64 = transaction
        .query_one(
            statement("apply_retention"),
            &[&15_i64, &"skip", &nobody, &nobody],
        )
        .unwrap()
        .get("taken");
    assert_eq!(taken, 15);
    assert_eq!(
        count(&mut client, places),
        2000,
        "nothing has moved for anybody else"
    );
    // Meanwhile the other processes find no due letters.
    let row = client
        .query_one(
            statement("apply_retention"),
            &[&15_i64, &"skip", &nobody, &nobody],
        )
        .unwrap();
    assert_eq!(row.get::<_, Option<i64>>("taken"), None);
    let pid: i32 = transaction
        .query_one("SELECT pg_backend_pid()", &[])
        .unwrap()
        .get(0);
    client
        .query("SELECT pg_terminate_backend($1, 60000)", &[&pid])
        .unwrap();
    drop(transaction);
    assert_eq!(count(&mut client, places), 2000);
    assert_eq!(
        db.dlq().retention().apply(&Operator::default()).unwrap(),
        20
    );
    assert_eq!(count(&mut client, places), 20);
}

#[test]
fn an_unknown_way_to_meet_a_concurrent_pass_is_refused() {
    let test = TestDatabase::migrated();
    let nobody: Option<&str> = None;
    for if_busy in [Some("none"), None] {
        let error = test
            .client()
            .query_one(
                statement("apply_retention"),
                &[&15_i64, &if_busy, &nobody, &nobody],
            )
            .unwrap_err();
        assert_eq!(error.code(), Some(&SqlState::INVALID_PARAMETER_VALUE));
    }
}

#[test]
fn a_locked_letter_is_left_for_the_next_pass() {
    let test = TestDatabase::migrated();
    let (db, mut client) = (test.open(), test.client());
    make(&mut client, "q", LetterState::Discarded, 10, 5);
    db.dlq()
        .retention()
        .set(
            &RetentionRule::delete(LetterState::Discarded, DAY),
            &Operator::default(),
        )
        .unwrap();
    let mut holder = test.client();
    let mut transaction = holder.transaction().unwrap();
    let held: i64 = transaction
        .query_one(
            "SELECT id FROM redrive.dead_letters ORDER BY id LIMIT 1 FOR UPDATE",
            &[],
        )
        .unwrap()
        .get(0);
    assert_eq!(
        db.dlq().retention().apply(&Operator::default()).unwrap(),
        4,
        "it does not wait"
    );
    assert_eq!(
        db.dlq()
            .prune(Duration::ZERO, &Operator::default())
            .unwrap(),
        0
    );
    drop(transaction);
    assert!(db.dlq().get(JobId::new(held)).unwrap().is_some());
    assert_eq!(db.dlq().retention().apply(&Operator::default()).unwrap(), 1);
}

#[test]
fn concurrent_retention_prune_redrive_and_death_lose_no_letter() {
    let test = TestDatabase::migrated();
    let queue = test.queue("orders");
    let db = queue.database();
    let mut client = test.client();
    let dead = letters(&queue, 600);
    for state in [LetterState::Recovered, LetterState::Discarded] {
        let rule = RetentionRule::archive(state, Duration::ZERO);
        db.dlq()
            .retention()
            .set(&rule, &Operator::default())
            .unwrap();
    }
    let over = Arc::new(AtomicBool::new(false));
    let archivists: Vec<_> = (0..2)
        .map(|_| {
            let (db, over) = (test.open(), Arc::clone(&over));
            thread::spawn(move || {
                let mut taken = 0;
                while !over.load(Ordering::SeqCst) {
                    taken += db.dlq().retention().apply(&Operator::default()).unwrap();
                }
                taken + db.dlq().retention().apply(&Operator::default()).unwrap()
            })
        })
        .collect();
    // One third recovers, one third dies again, one third is discarded.
    let worker = worker(&queue)
        .slots(4)
        .handle(|job: &Job<Order>| match job.payload().number % 2 {
            0 => Ok(()),
            _ => Err(Failure::reject("still broken")),
        })
        .start()
        .unwrap();
    for part in dead.chunks(60) {
        db.dlq()
            .redrive(
                &LetterFilter::new().ids(part[..40].iter().copied()),
                &Operator::default(),
            )
            .unwrap();
        let unwanted = LetterFilter::new().ids(part[40..].iter().copied());
        db.dlq()
            .discard(&unwanted, &Operator::default().reason("not wanted"))
            .unwrap();
    }
    drained(&queue);
    wait_until("all jobs to have ended", SOON, || {
        letters_in(db, "orders", LetterState::Redriving) == 0
    });
    over.store(true, Ordering::SeqCst);
    let taken: u64 = archivists
        .into_iter()
        .map(|archivist| archivist.join().unwrap())
        .sum();
    stop(worker);
    let mut ids = |table: &str| -> BTreeSet<i64> {
        let rows = client
            .query(&format!("SELECT id FROM redrive.{table}"), &[])
            .unwrap();
        rows.iter().map(|row| row.get(0)).collect()
    };
    let (here, there) = (ids("dead_letters"), ids("archived_letters"));
    assert!(here.is_disjoint(&there), "in both");
    let all: BTreeSet<i64> = here.union(&there).copied().collect();
    assert_eq!(all, dead.iter().map(|id| id.get()).collect(), "in neither");
    assert_eq!((here.len(), there.len(), taken), (200, 400, 400));
    assert_eq!(letters_in(db, "orders", LetterState::Open), 200);
    let groups = "SELECT (sum(open) * 1000 + sum(recovered + discarded + redriving))::bigint FROM redrive.failure_groups";
    assert_eq!(count(&mut client, groups), 200_000);
}
