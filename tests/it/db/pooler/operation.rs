//! Operating through a pooler: schedules, migrations, commands.

use redrive_tests::prelude::*;

use super::{CONNECTIONS, PooledDatabase, redrive, well};
use crate::worker::renewed_for;

#[test]
fn a_schedule_ticks_behind_a_pooler_that_forwards_no_notification() {
    let shared = PooledDatabase::new();
    let queue = shared.queue();
    let worker = lively(&queue).runs(|_: &Job<Order>| Ok(()));
    renewed_for(&mut shared.test.client(), 1000);
    let second = Schedule::every("second", Duration::from_secs(1)).unwrap();
    let second = second.job("orders", new_order(1));
    let schedules = queue.database().schedules();
    schedules.set(&second, &maria()).unwrap();
    counted(&worker, "two jobs", |counts| counts.done >= 2);
    stop(worker);
    assert!(schedules.history("second", 10).unwrap().len() >= 2);
    shared.nothing_is_left();
}

#[test]
fn eight_concurrent_migrators_apply_each_migration_once_through_a_pooler() {
    let test = TestDatabase::empty();
    // At this level, a snapshot would be older than the lock that each of them waits for.
    test.sets("default_transaction_isolation = 'repeatable read'");
    let shared = PooledDatabase::of(test, CONNECTIONS, "");
    let migrate = |db: Database| db.migrate().unwrap().len();
    let applied = at_once(8, |_| shared.open(), migrate);
    let applied: usize = applied.into_iter().sum();
    let all = shared.number("SELECT count(*) FROM redrive.migrations");
    assert_eq!(i64::try_from(applied).unwrap(), all);
    shared.open().check_schema().unwrap();
}

#[test]
fn the_command_line_works_through_a_pooler() {
    let shared = PooledDatabase::new();
    let file = TempFile::of("{\"n\": 1}\n".repeat(2500));
    let ours = |line: &str| {
        let words = words(&format!("--pooler transaction {line}"));
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        well(&redrive(shared.url(), &words))
    };
    ours("migrate");
    ours(&format!("enqueue orders order --file {file}"));
    for _ in 0..2 {
        ours("enqueue orders order '{\"n\": 2}'");
    }
    has(ours("stats"), "2,502");
    let many = "DELETE FROM redrive.jobs WHERE payload ->> 'n' = '1'";
    shared.test.sql(many);
    ours("work orders --exec 'exit 65' --drain --slots 2");
    has(ours("dlq list orders"), "order");
    ours("dlq");
    ours("dlq edit orders --merge '{\"n\": 3}' --yes");
    ours("dlq discard orders --reason wrong --yes");
    ours("dlq reopen orders --yes");
    ours("dlq deliver orders --limit 1 --exec true --yes");
    ours("dlq redrive orders --yes --no-wait --reason fixed");
    ours("work orders --exec cat --drain --slots 2");
    ours("audit");
    shared.nothing_is_left();
}
