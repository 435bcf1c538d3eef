//! Handlers whose transactions cannot commit: whatever ends or spoils their sessions is charged, and only an outage of
//! the database is not.

use std::sync::atomic::AtomicI32;

use redrive_tests::prelude::*;

/// Ignores the error of a statement.
fn ignored(tx: &mut Transaction<'_>, statement: &str) -> Result<(), postgres::Error> {
    tx.execute(statement, &[]).map(drop).or(Ok(()))
}

/// Ends the session of the transaction from another one, as an administrator does.
fn terminate(tx: &mut Transaction<'_>, url: &str) -> Result<(), postgres::Error> {
    let pid: i32 = tx.query_one("SELECT pg_backend_pid()", &[])?.get(0);
    let end = "SELECT pg_terminate_backend($1, 10000)";
    Client::connect(url, NoTls)?.execute(end, &[&pid]).map(drop)
}

/// Waits until the server has ended the session.
fn idle(tx: &mut Transaction<'_>, url: &str) -> Result<(), postgres::Error> {
    let pid: i32 = tx.query_one("SELECT pg_backend_pid()", &[])?.get(0);
    let mut other = Client::connect(url, NoTls)?;
    // The session may end before it answers.
    _ = tx.batch_execute("SET LOCAL idle_in_transaction_session_timeout = '1ms'");
    wait_until("the idle session to end", SOON, || {
        let left = "SELECT count(*) = 0 FROM pg_stat_activity WHERE pid = $1";
        other.ask(left, &[&pid])
    });
    Ok(())
}

/// Spoils a transaction in the way of this number.
fn spoil(number: usize, tx: &mut Transaction<'_>, url: &str) -> Result<(), postgres::Error> {
    match number {
        0 => ignored(tx, "INSERT INTO nonexistent VALUES (1)"),
        1 => {
            tx.batch_execute("SET LOCAL statement_timeout = '1ms'")?;
            ignored(tx, "SELECT pg_sleep(60)")
        }
        2 => tx.batch_execute("SET TRANSACTION READ ONLY"),
        3 => tx.batch_execute("INSERT INTO public.once VALUES (1), (1)"),
        4 => tx.batch_execute("INSERT INTO public.checked VALUES ('40001')"),
        5 => tx.batch_execute("INSERT INTO public.checked VALUES ('P0001')"),
        6 => tx.batch_execute("INSERT INTO public.effects VALUES (1); ROLLBACK"),
        7 => tx.batch_execute("ROLLBACK; BEGIN; INSERT INTO public.effects VALUES (1)"),
        8 => terminate(tx, url),
        9 => idle(tx, url),
        _ => ignored(tx, "SELECT pg_terminate_backend(pg_backend_pid())"),
    }
}

/// The class of each failure, and a part of its message or detail. If the session ended, the driver may give the reason
/// to a request of which nobody awaits the answer.
const TOLD: [(&str, &str); 11] = [
    ("SQLSTATE 25P02", "current transaction is aborted"),
    ("SQLSTATE 25P02", "current transaction is aborted"),
    ("SQLSTATE 25006", "read-only"),
    (
        "SQLSTATE 23505",
        "constraint `only_once` of table `public.once`",
    ),
    ("SQLSTATE 40001", "SQLSTATE 40001"),
    ("SQLSTATE P0001", "no at commit"),
    ("SQLSTATE 2D000", "its own COMMIT or ROLLBACK"),
    ("SQLSTATE 2D000", "its own COMMIT or ROLLBACK"),
    ("SQLSTATE 57P01 or SessionLost", "could not settle job"),
    ("SQLSTATE 25P03 or SessionLost", "could not settle job"),
    ("SessionLost", "could not settle job"),
];

/// Creates tables whose constraints are checked at the commit.
const TABLES: &str = "
    CREATE TABLE public.effects (number bigint);
    CREATE TABLE public.once (number bigint CONSTRAINT only_once UNIQUE DEFERRABLE INITIALLY DEFERRED);
    CREATE TABLE public.checked (state text);
    CREATE FUNCTION public.refuse() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        RAISE EXCEPTION 'no at commit' USING ERRCODE = NEW.state;
    END $$;
    CREATE CONSTRAINT TRIGGER refused AFTER INSERT ON public.checked DEFERRABLE INITIALLY DEFERRED
        FOR EACH ROW EXECUTE FUNCTION public.refuse();";

#[test]
fn whatever_spoils_the_session_of_a_handler_is_charged_and_told() {
    let (test, queue) = TestDatabase::with_orders();
    test.sql(TABLES);
    let url = test.url().to_owned();
    let handler = move |job: &Job<Order>, tx: &mut Transaction<'_>| -> Result<(), Failure> {
        let number = usize::try_from(job.payload().number).expect("a number");
        Ok(spoil(number, tx, &url)?)
    };
    let worker = worker(&queue).slots(4).handle(handler).started();
    let jobs = (0..11).map(|number| new_order(number).max_attempts(2));
    let ids = queue.enqueue_jobs(&jobs.collect::<Vec<_>>()).unwrap();
    let counts = finish(&queue, worker).stats;
    assert_eq!((counts.dead, counts.retried), (11, 11));
    assert_eq!((counts.done, counts.released), (0, 0));
    for ((place, (class, part)), enqueued) in TOLD.iter().enumerate().zip(ids) {
        let letter = queue.letter(enqueued.id());
        let died = (letter.cause.as_str(), letter.attempts);
        assert_eq!(died, ("exhausted", 2), "{place}: {letter:?}");
        let is_told = class.split(" or ").any(|class| class == letter.error_class);
        assert!(is_told, "{place}: {letter:?}");
        let detail = letter.error_detail;
        let told = format!("{place}: {} {detail:?}", letter.error_message);
        has(told, part);
    }
    let effects = "SELECT count(*) FROM public.effects";
    assert_eq!(scalar(&mut test.client(), effects), 0);
}

/// A worker whose handler waits at the gate and then ends as its job says. Later runs change nothing.
fn waiting(queue: &Queue, gate: &Gate) -> Worker {
    let (gate, runs) = (gate.clone(), AtomicI32::new(0));
    let handler = move |job: &Job<Order>, tx: &mut Transaction<'_>| -> Result<(), Failure> {
        if runs.fetch_add(1, Ordering::SeqCst) >= 4 {
            return Err(Failure::snooze(HOUR));
        }
        tx.query_one("SELECT 1", &[])?;
        gate.pass();
        match job.payload().number {
            0 => Ok(()),
            1 => Ok(tx.batch_execute("SELECT 2")?),
            2 => {
                tx.batch_execute("SELECT 3").unwrap();
                Ok(())
            }
            _ => Err(Failure::reject("a decision")),
        }
    };
    worker(queue).slots(4).handle(handler).started()
}

#[test]
fn an_outage_under_a_handler_is_not_charged_and_its_refund_is_counted() {
    let cluster = Cluster::new();
    cluster.start();
    let queue = Queue::new(&cluster.migrate(), "orders").unwrap();
    let gate = Gate::new();
    let worker = waiting(&queue, &gate);
    let orders: Vec<Order> = (0..4).map(|number| Order { number }).collect();
    let ids = queue.enqueue_many(&orders).unwrap();
    gate.wait_for(4);
    cluster.crash();
    cluster.start();
    gate.open();
    counted(&worker, "the jobs to be settled", |counts| {
        counts.released == 3 && counts.dead == 1
    });
    let counts = stop(worker).stats;
    assert_eq!((counts.done, counts.retried, counts.lost), (0, 0, 0));
    for id in &ids[..3] {
        let job = queue.live(*id);
        assert_eq!((job.state, job.attempts), (JobState::Delayed, 0));
    }
    let mut client = cluster.client();
    assert_eq!(client.count("jobs_delayed WHERE (meta).refunds = 1"), 3);
}

/// Opens a pool of so many connections, for which a call waits so long.
fn pool(test: &TestDatabase, connections: u32, patience: Duration) -> Database {
    let builder = Database::builder(test.url()).connections(connections);
    builder.connect_timeout(patience).open().unwrap()
}

/// They would wait for connections that they have, and for those of the calls in them.
#[test]
fn no_more_handlers_in_transactions_run_at_a_time_than_the_pool_has_connections_for() {
    let test = TestDatabase::migrated();
    let db = pool(&test, 8, Duration::from_secs(2));
    let queue = Queue::new(&db, "orders").unwrap();
    let (gate, other) = (kept::<Gate>(), Queue::new(&db, "other").unwrap());
    let handler = move |job: &Job<Order>, _: &mut Transaction<'_>| -> Result<(), Failure> {
        gate.pass();
        other.enqueue(job.payload())?;
        Ok(())
    };
    let worker = lively(&queue).slots(4).handle(handler).started();
    queue.enqueue_many(&Order::up_to(6)).unwrap();
    gate.wait_for(2);
    // For longer than a call waits for a connection.
    super::renewed_for(&mut test.client(), 4000);
    gate.open();
    let counts = finish(&queue, worker).stats;
    assert_eq!((counts.done, counts.retried, counts.released), (6, 0, 0));
    // One runs in any case.
    let logged = Logged::start(LevelFilter::Warn);
    let few = Queue::new(&pool(&test, 6, SOON), "few").unwrap();
    let handler = |_: &Job<Order>, _: &mut Transaction<'_>| Ok(());
    stop(lively(&few).slots(4).handle(handler).started());
    has(logged.lines().join("\n"), "get 1 of their 4 slots");
}

/// Two workers have six slots and together a pool of ten connections, most of which they need themselves. The jobs have had
/// all their refunds, and have one attempt.
#[test]
fn a_handler_that_gets_no_connection_is_not_charged() {
    let test = TestDatabase::migrated();
    let queue = Queue::new(&pool(&test, 10, Duration::from_millis(200)), "orders").unwrap();
    let gate = kept::<Gate>();
    let start = || {
        let handler = move |_: &Job<Order>, _: &mut Transaction<'_>| {
            gate.pass();
            Ok(())
        };
        worker(&queue).slots(3).handle(handler).started()
    };
    let workers = [start(), start()];
    let late = new_order(1).max_attempts(1).delay(HOUR);
    queue.enqueue_jobs(&vec![late; 6]).unwrap();
    let mut client = test.client();
    client.sql("UPDATE redrive.jobs_delayed SET run_at = clock_timestamp(), meta.refunds = 10");
    wait_until("an attempt that could not begin", SOON, || {
        let returned = "SELECT count(*) FROM redrive.jobs_delayed WHERE (meta).history -> 0 ->> 'outcome' = 'interrupted' \
                            AND (meta).attempt IS NULL AND (meta).refunds = 10";
        client.ask::<i64>(returned, &[]) > 0
    });
    gate.open();
    drained(&queue);
    assert_eq!(stop_all(workers), 6);
}
