//! The archive: complete, and never a letter lost on the way.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use postgres::GenericClient;
use postgres::types::ToSql;
use redrive::dlq::{LetterFilter, LetterState, RetentionRule};
use redrive::{Failure, Job, JobId};
use redrive_tests::{
    Begin, Dead, Order, SOON, Sql, TestDatabase, drained, letters, letters_in, scalar, statement,
    stop, wait_until, worker,
};

use super::{DAY, count, make};

/// Applies a rule to 15 letters, and returns how many it took.
fn take(client: &mut impl GenericClient) -> Option<i64> {
    let nobody: Option<&str> = None;
    let values: [&(dyn ToSql + Sync); 4] = [&15_i64, &"skip", &nobody, &nobody];
    let row = client.query_one(statement("apply_retention"), &values);
    row.unwrap().get(0)
}

#[test]
fn a_crash_leaves_a_letter_in_the_table_or_in_the_archive() {
    let test = TestDatabase::migrated();
    let (db, mut client) = (test.open(), test.client());
    make(&mut client, "q", LetterState::Recovered, 10, 20);
    db.retains(&RetentionRule::archive(LetterState::Recovered, DAY));
    let places = "SELECT 100 * (SELECT count(*) FROM redrive.dead_letters) + (SELECT count(*) FROM redrive.archived_letters)";
    let mut killed = test.client();
    let mut transaction = killed.transaction().unwrap();
    assert_eq!(take(&mut transaction), Some(15));
    assert_eq!(count(&mut client, places), 2000, "for anybody else");
    // Meanwhile the other processes find no due letters.
    assert_eq!(take(&mut client), None);
    let pid: i32 = transaction.ask("SELECT pg_backend_pid()", &[]);
    client.change("SELECT pg_terminate_backend($1, 60000)", &[&pid]);
    drop(transaction);
    assert_eq!(count(&mut client, places), 2000);
    assert_eq!(db.tidies_up(), 20);
    assert_eq!(count(&mut client, places), 20);
}

#[test]
fn a_locked_letter_is_left_for_the_next_pass() {
    let test = TestDatabase::migrated();
    let (db, mut client) = (test.open(), test.client());
    make(&mut client, "q", LetterState::Discarded, 10, 5);
    db.retains(&RetentionRule::delete(LetterState::Discarded, DAY));
    let mut holder = test.client();
    let mut transaction = holder.transaction().unwrap();
    let held = scalar(
        &mut transaction,
        "SELECT id FROM redrive.dead_letters ORDER BY id LIMIT 1 FOR UPDATE",
    );
    assert_eq!(db.tidies_up(), 4, "it does not wait");
    assert_eq!(db.prunes(Duration::ZERO), 0);
    drop(transaction);
    assert!(db.dlq().get(JobId::new(held)).unwrap().is_some());
    assert_eq!(db.tidies_up(), 1);
}

#[test]
fn concurrent_retention_prune_redrive_and_death_lose_no_letter() {
    let (test, queue) = TestDatabase::with_orders();
    let db = queue.database();
    let mut client = test.client();
    let dead = letters(&queue, 600);
    for state in [LetterState::Recovered, LetterState::Discarded] {
        let rule = RetentionRule::archive(state, Duration::ZERO);
        db.retains(&rule);
    }
    let over = Arc::new(AtomicBool::new(false));
    let archivists: Vec<_> = (0..2)
        .map(|_| {
            let (db, over) = (test.open(), Arc::clone(&over));
            thread::spawn(move || {
                let mut taken = 0;
                while !over.load(Ordering::SeqCst) {
                    taken += db.tidies_up();
                }
                taken + db.tidies_up()
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
        .started();
    for part in dead.chunks(60) {
        db.redrives(&LetterFilter::new().ids(part[..40].iter().copied()));
        let unwanted = LetterFilter::new().ids(part[40..].iter().copied());
        db.discards(&unwanted);
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
        let ids = client.column(&format!("SELECT id FROM redrive.{table}"), &[]);
        ids.into_iter().collect()
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
