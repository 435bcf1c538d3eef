//! A plain role: no superuser, only the default extension, and an empty search path. Everything
//! works.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use postgres::Client;
use redrive::dlq::runs::{Rate, RunOptions};
use redrive::dlq::{Edit, ForeignFailure, LetterFilter, LetterState, Policy};
use redrive::metrics::Reader;
use redrive::schedule::Schedule;
use redrive::{Enqueued, Failure, Job, Queue};
use redrive_tests::{
    Begin, Dead, Finish, Logged, Order, Role, SOON, Sql, TestDatabase, drained, letters_in, maria,
    new_order, no_drift, of_orders, put, ran_at, read, stats, stop, wait_until, words, worker,
};

/// A database owned by a role without other rights, with an empty search path.
fn plain() -> (TestDatabase, Role) {
    let test = TestDatabase::empty();
    let role = test.role("plain");
    let (name, role_name) = (test.name(), role.name());
    test.client().sql(&format!(
        "ALTER ROLE {role_name} NOINHERIT; \
         ALTER DATABASE {name} OWNER TO {role_name}; \
         REVOKE ALL ON SCHEMA public FROM PUBLIC; \
         REVOKE ALL ON DATABASE {name} FROM PUBLIC; \
         ALTER DATABASE {name} SET search_path = ''; \
         ALTER ROLE {role_name} SET search_path = ''"
    ));
    (test, role)
}

#[test]
fn a_role_without_superuser_or_search_path_can_do_everything() {
    let logged = Logged::start(log::LevelFilter::Warn);
    let (_test, plain) = plain();
    let db = plain.open();
    db.migrate().unwrap();
    let mut client = plain.client();
    assert_eq!(ask(&mut client, "SHOW search_path"), "\"\"");
    let extensions = "SELECT string_agg(e.extname, ',') FROM pg_extension e";
    assert_eq!(ask(&mut client, extensions), "plpgsql");
    client.sql("CREATE SCHEMA shop; CREATE TABLE shop.effects (number bigint)");

    let queue = Queue::new(&db, "orders").unwrap();
    enqueue(&queue, &mut client);
    work(&queue, &mut client);
    type_commands(&plain);

    // The exporter: the owner can grant its role everything except the transactions of others.
    let reading = read(&mut Reader::new("1"), &mut plain.client());
    assert!(reading.failures.is_empty(), "{:?}", reading.failures);
    assert!(reading.is_ready());

    let troubles: Vec<String> = logged
        .lines()
        .into_iter()
        .filter(|line| line.starts_with("ERROR"))
        .collect();
    assert!(troubles.is_empty(), "\n{}\n", troubles.join("\n"));
}

fn ask(client: &mut Client, question: &str) -> String {
    client.ask(question, &[])
}

/// Enqueues jobs in every way.
fn enqueue(queue: &Queue, client: &mut Client) {
    queue.enqueue_many(&Order::up_to(8)).unwrap();
    queue.enqueue_many(&Order::up_to(1001)).unwrap();
    put(queue, new_order(9).delay(Duration::from_millis(1)));
    let unique = || new_order(10).unique("ten");
    let first = put(queue, unique());
    assert_eq!(
        queue.enqueue_job(unique()).unwrap(),
        Enqueued::Existing(first)
    );
    let mut transaction = client.transaction().unwrap();
    queue.enqueue_in(&mut transaction, &Finish {}).unwrap();
    transaction.commit().unwrap();
    let by_sql = "SELECT redrive.enqueue('orders', 'order', '{\"number\": 11}', priority => 5, unique_key => 'sql')::text";
    ask(client, by_sql);
}

/// Runs jobs to every outcome, and redrives letters in every way.
fn work(queue: &Queue, client: &mut Client) {
    let db = queue.database();
    // Done, retried, snoozed, dead, panicking, and in a transaction.
    let fixed = std::sync::Arc::new(AtomicBool::new(false));
    let slept = AtomicBool::new(false);
    let working = worker(queue)
        .slots(4)
        .lease(Duration::from_secs(2))
        .handle({
            let fixed = std::sync::Arc::clone(&fixed);
            move |job: &Job<Order>| match (job.payload().number, job.attempt()) {
                (1, 1) => Err(Failure::retry("again")),
                (2, _) if !slept.swap(true, Ordering::SeqCst) => {
                    Err(Failure::snooze(Duration::ZERO))
                }
                (3, 1) => panic!("ouch"),
                (4..=7, _) if !fixed.load(Ordering::SeqCst) => {
                    Err(Failure::reject("no such order").class("NoOrder"))
                }
                _ => Ok(()),
            }
        })
        .handle_in_transaction(|_: &Job<Finish>, tx| {
            tx.execute("INSERT INTO shop.effects VALUES (1)", &[])?;
            Ok(())
        })
        .started();
    drained(queue);
    let effects = "SELECT count(*)::text FROM shop.effects";
    assert_eq!(ask(client, effects), "1");
    assert_eq!(letters_in(db, "orders", LetterState::Open), 8);

    // Letters: listed, counted, edited, redriven by hand, by a run and by a policy, captured.
    let some = |limit| of_orders().error_class("NoOrder").limit(limit);
    let operator = maria();
    assert_eq!(db.dlq().count(&some(100)).unwrap().letters, 8);
    let edit = Edit::merge(r#"{"currency": "EUR"}"#).unwrap();
    assert_eq!(db.edits(&some(1), &edit).edited.len(), 1);
    fixed.store(true, Ordering::SeqCst);
    assert_eq!(db.redrives(&some(2)).redriven.len(), 2);
    let options = RunOptions::new().rate(Rate::Unthrottled);
    db.dlq()
        .runs()
        .create(&some(2), &options, &operator)
        .unwrap()
        .unwrap();
    let policy = Policy::new(LetterFilter::new().queue("nightly"));
    let nightly = Schedule::every("nightly", Duration::from_secs(1)).unwrap();
    let nightly = nightly.redrive(policy);
    db.schedules().set(&nightly, &operator).unwrap();
    let foreign = ForeignFailure::new("kafka", "3/18", "nightly", "order", r#"{"number": 1}"#);
    db.captures(&foreign);
    ask(
        client,
        "SELECT id::text FROM redrive.capture('kafka', '3/19', 'orders', 'order', '\\x7b', error_class => 'Parse')",
    );
    client.sql("UPDATE redrive.dead_letters SET died_at = died_at - interval '2 hours' WHERE queue = 'nightly'");
    wait_until("the run and the policy to send their letters", SOON, || {
        letters_in(db, "nightly", LetterState::Open) == 0
            && letters_in(db, "orders", LetterState::Recovered) == 4
    });
    stop(working);
    for statement in [
        "SELECT redrive.redrive('{\"class\": \"NoOrder\"}', reason => 'fixed', max_letters => 1)",
        "SELECT redrive.discard('{\"class\": \"NoOrder\"}', reason => 'test data', max_letters => 1)",
        "SELECT redrive.turn_ring(8192, 1000)",
        "SELECT redrive.fold_metrics()",
        "SELECT * FROM redrive.live_jobs, redrive.letters, redrive.dlq_events, redrive.queues, redrive.runs",
    ] {
        client.sql(statement);
    }
    no_drift(db);
    assert!(stats(db, "orders").is_some_and(|stats| stats.discarded == 1));
}

/// The command line.
fn type_commands(plain: &Role) {
    let types = |line: &str| {
        let words = words(line);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        ran_at(plain.url(), &words).exits_with(0)
    };
    types("migrate --check");
    types("enqueue mails mail {}");
    types("work mails --exec 'exit 65' --drain");
    types("dlq").shows("mails");
    types("dlq list mails").shows("mail");
    types("dlq groups");
    types("dlq redrive mails --yes");
    types("work mails --exec true --drain");
    types("stats");
    types("audit");
}
