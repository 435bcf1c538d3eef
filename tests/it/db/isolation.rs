//! Isolation levels: what reads after taking a lock refuses a snapshot older than the lock.

use redrive_tests::prelude::*;

const LEVELS: [&str; 2] = ["REPEATABLE READ", "SERIALIZABLE"];

pub(super) const REFUSING: [&str; 9] = [
    "SELECT redrive.turn_ring(8192, 1000)",
    "SELECT redrive.fold_metrics()",
    "SELECT redrive.fold_letters()",
    "SELECT redrive.prune_groups('1 day')",
    "SELECT redrive.audit_counters()",
    "SELECT redrive.repair()",
    "SELECT redrive.metric_totals()",
    "SELECT redrive.compact()",
    "SELECT redrive.is_drained('orders')",
];

/// Expects that every function names the isolation level in its error.
fn all_refuse(client: &mut Client, begin: &str, level: &str) {
    for statement in REFUSING {
        for says in ["25000", level] {
            client.sql(begin);
            client.refuses(statement, &[], says);
            client.sql("ROLLBACK");
        }
    }
}

#[test]
fn a_transaction_with_an_old_snapshot_is_refused() {
    let (_test, mut client) = TestDatabase::with_client();
    for level in LEVELS {
        let begin = format!("BEGIN ISOLATION LEVEL {level}");
        all_refuse(&mut client, &begin, level);
    }
    for statement in REFUSING {
        client.sql(statement);
    }
}

/// Makes a level the default of a database, or of the role that the tests use in it.
fn defaults(test: &TestDatabase, level: &str) -> [String; 2] {
    let setting = "default_transaction_isolation";
    let database = format!("ALTER DATABASE {}", test.name());
    let role = format!("ALTER ROLE CURRENT_USER IN DATABASE {}", test.name());
    [(&role, &database), (&database, &role)]
        .map(|(reset, set)| format!("{reset} RESET {setting}; {set} SET {setting} = '{level}'"))
}

#[test]
fn workers_and_operators_work_with_any_default() {
    for level in LEVELS {
        let test = TestDatabase::migrated();
        test.sql(&defaults(&test, level)[0]);
        let queue = test.queue("orders");
        let worker = lively(&queue).runs(|job: &Job<Order>| match job.payload().number {
            1 => Err(Failure::reject("never")),
            _ => Ok(()),
        });
        queue.enqueue_many(&Order::up_to(100)).unwrap();
        drained(&queue);
        let mut client = test.client();
        client.sql("SET default_transaction_isolation = 'read committed'");
        wait_until("the worker to fold the counters", SOON, || {
            client.sql("UPDATE redrive.metric_deltas SET at = at - interval '1 minute'");
            let folded = "SELECT count(*) > 0 FROM redrive.metric_values";
            client.ask(folded, &[])
        });
        stop(worker);
        let (db, operator) = (test.open(), Operator::default());
        let retention = db.dlq().retention();
        let rule = RetentionRule::delete(LetterState::Open, HOUR).even_open();
        retention.set(&rule, &operator).unwrap();
        client.sql(
            "UPDATE redrive.dead_letters SET died_at = died_at - interval '2 hours', \
             changed_at = changed_at - interval '2 hours'",
        );
        assert_eq!(retention.apply(&operator).unwrap(), 1);
        db.dlq().prune(HOUR, &operator).unwrap();
        no_drift(&db);
    }
}

#[test]
fn enqueues_of_one_key_meet_no_conflict_of_the_default_level() {
    for level in LEVELS {
        let test = TestDatabase::migrated();
        test.sql(&defaults(&test, level)[1]);
        let queue = test.queue("orders");
        let job = NewJob::new(&Order { number: 1 }).unwrap();
        let job = job.unique("order 1").unique_window(HOUR);
        let enqueue = || (0..25).map(|_| queue.enqueue_job(&job).unwrap().id());
        let mut ids = at_once(4, |_| (), |()| enqueue().collect::<Vec<_>>()).concat();
        ids.dedup();
        assert_eq!(ids.len(), 1, "{level}");
    }
}
