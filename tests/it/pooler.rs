//! A pooler in transaction mode, a real PgBouncer: everything works through it when it was told of,
//! nothing stays on a connection that somebody else gets next, and who forgets to tell is told.

use std::process::{Command, Output};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use postgres::{Client, SimpleQueryMessage};
use redrive::postgres::{NoTls, Transaction};
use redrive::r2d2::Pool;
use redrive::r2d2_postgres::PostgresConnectionManager;
use redrive::{
    Act, BreakerState, Cancelled, Capture, Captured, Database, Driven, Edit, Failure, Job, Letter,
    LetterState, Letters, NewJob, Pooler, Queue, Rate, RunOptions, RunState, Unique,
};
use redrive_tests::{
    Bouncer, Cluster, Exporter, Gate, Hold, Order, SOON, TestDatabase, counted, drained, letters,
    letters_in, no_drift, stats, stop, wait_until, worker,
};

use crate::exporter::{PROGRAM as EXPORTER, up};
use crate::wake::notified;

/// How many connections to the server all of a test share.
const CONNECTIONS: u32 = 2;

/// A migrated database with a PgBouncer before it. It is dropped first, and with it who is connected.
struct Shared {
    bouncer: Bouncer,
    test: TestDatabase,
}

impl Shared {
    fn new() -> Shared {
        let test = TestDatabase::migrated();
        Shared {
            bouncer: Bouncer::before(test.url(), CONNECTIONS),
            test,
        }
    }

    fn queue(&self) -> Queue {
        self.bouncer.queue("orders")
    }

    /// One number of the server, past the pooler.
    fn number(&self, asked: &str) -> i64 {
        self.test.client().query_one(asked, &[]).unwrap().get(0)
    }

    /// Waits until the worker has renewed so often, and so looked for chores, too.
    #[track_caller]
    fn renews(&self, times: usize) {
        let asked = "SELECT (extract(epoch FROM max(expires_at)) * 1000000)::bigint \
                     FROM redrive.workers";
        let (mut last, mut seen) = (self.number(asked), 0);
        wait_until("the worker to renew", SOON, || {
            let now = self.number(asked);
            seen += usize::from(now != last);
            last = now;
            seen >= times
        });
    }

    /// Fails unless every connection to the server is as it was made. All of them are looked at,
    /// each in a transaction of its own at the same time.
    #[track_caller]
    fn nothing_is_left(&self) {
        let mut clients: Vec<Client> = (0..CONNECTIONS).map(|_| self.bouncer.client()).collect();
        for client in &mut clients {
            client.batch_execute("BEGIN").unwrap();
        }
        for client in &mut clients {
            assert_eq!(left(client), [""; 0]);
        }
    }
}

/// What is left on the connection of the server that a transaction has.
fn left(client: &mut Client) -> Vec<String> {
    // What PgBouncer sets by itself is what each of its clients has asked for.
    const ASKED: &str = "
        SELECT 'statement ' || statement FROM pg_prepared_statements
        UNION ALL SELECT 'setting ' || name || ' = ' || setting FROM pg_settings
            WHERE source = 'session' AND name NOT IN ('application_name', 'client_encoding',
                'DateStyle', 'TimeZone', 'standard_conforming_strings', 'IntervalStyle')
        UNION ALL SELECT 'listens to ' || channel FROM pg_listening_channels() AS channel
        UNION ALL SELECT 'lock ' || objid::text FROM pg_locks
            WHERE pid = pg_backend_pid() AND locktype = 'advisory'
        UNION ALL SELECT 'temporary tables' WHERE pg_my_temp_schema() <> 0";
    let answer = client.simple_query(ASKED).unwrap();
    let rows = answer.iter().filter_map(|message| match message {
        SimpleQueryMessage::Row(row) => Some(row.get(0).unwrap_or_default().to_owned()),
        SimpleQueryMessage::CommandComplete(_) | SimpleQueryMessage::RowDescription(_) | _ => None,
    });
    rows.collect()
}

#[test]
fn jobs_come_in_by_every_way_and_are_done() {
    let shared = Shared::new();
    let queue = shared.queue();
    queue.enqueue(&Order { number: 1 }).unwrap();
    queue.enqueue_many(&Order::up_to(10)).unwrap();
    // By COPY, and some of them later.
    let many: Vec<NewJob> = (0..1500)
        .map(|number| {
            let new = NewJob::new(&Order { number }).unwrap();
            new.delay(Duration::from_millis(u64::from(number % 2 == 0)))
        })
        .collect();
    queue.add_many(many.clone()).unwrap();
    let unique = || NewJob::new(&Order { number: 2 }).unwrap().unique("today");
    let first = queue.add_unique(unique()).unwrap();
    assert!(matches!(first, Unique::Inserted(_)));
    assert_eq!(
        queue.add_unique(unique()).unwrap(),
        Unique::Existing(first.id())
    );

    // In the caller's own transaction, beside its own writes.
    let mut client = shared.bouncer.client();
    client
        .batch_execute("CREATE TABLE shop (n bigint)")
        .unwrap();
    for is_kept in [true, false] {
        let mut tx = client.transaction().unwrap();
        tx.execute("INSERT INTO shop VALUES ($1)", &[&7_i64])
            .unwrap();
        queue.enqueue_in(&mut tx, &Order { number: 3 }).unwrap();
        queue.add_many_in(&mut tx, &many).unwrap();
        match is_kept {
            true => tx.commit().unwrap(),
            false => tx.rollback().unwrap(),
        }
    }
    assert_eq!(shared.number("SELECT count(*) FROM shop"), 1);

    let worker = worker(&queue)
        .slots(4)
        .handle(|_: &Job<Order>| Ok(()))
        .start()
        .unwrap();
    drained(&queue);
    counted(&worker, "all to be done", |counts| {
        counts.done == 1 + 10 + 1500 + 1 + 1 + 1500
    });
    stop(worker);
    shared.nothing_is_left();
    no_drift(queue.database());
}

#[test]
fn jobs_are_tried_again_die_and_are_sent_back() {
    let shared = Shared::new();
    let queue = shared.queue();
    let db = queue.database();
    let is_mended = Arc::new(AtomicBool::new(false));
    let handler = {
        let is_mended = Arc::clone(&is_mended);
        move |job: &Job<Order>| match job.attempt() {
            _ if is_mended.load(Ordering::SeqCst) => Ok(()),
            1 => Err(Failure::retry("not yet")),
            _ => Err(Failure::reject("broken")),
        }
    };
    let worker = worker(&queue).slots(2).handle(handler).start().unwrap();
    let ids = queue.enqueue_many(&Order::up_to(9)).unwrap();
    counted(&worker, "all to die", |counts| counts.dead == 9);
    assert_eq!(worker.counts().retried, 9);
    is_mended.store(true, Ordering::SeqCst);

    let act = Act::new().person("maria@ops-1").why("fixed");
    let one = db.redrive(&Letters::ids([ids[0]]), &act).unwrap();
    assert_eq!(one.redriven, [ids[0]]);
    let edit = Edit::merge(r#"{"number": 70}"#).unwrap();
    let edited = db.edit(&Letters::ids([ids[1]]), &edit, &act).unwrap();
    assert_eq!(edited.edited, [ids[1]]);
    let gone = db.discard(&Letters::ids([ids[2]]), &act).unwrap();
    assert_eq!(gone, [ids[2]]);
    let sink = |letter: &Letter| match letter.id {
        id if id == ids[3] => Ok(()),
        _ => Err(Failure::retry("the broker is away")),
    };
    let sent = db.redrive_to(&Letters::ids(ids[3..5].to_vec()), &sink, &act);
    let sent = sent.unwrap();
    assert_eq!((sent.delivered, sent.failed.len()), (vec![ids[3]], 1));

    // A run that we drive, and one that the worker does.
    let options = RunOptions::new().rate(Rate::Unthrottled);
    let some = Letters::ids(ids[4..6].to_vec());
    let (_, mut driver) = db.start_run(&some, &options, &act).unwrap().unwrap();
    wait_until("the run to end", SOON, || {
        driver.step().unwrap().driven != Driven::Running
    });
    let made = db.create_run(&Letters::queue("orders"), &options, &act);
    let run = made.unwrap().expect("letters").id;
    wait_until("a worker to drive the run to its end", SOON, || {
        db.run(run).unwrap().expect("the run").state == RunState::Finished
    });
    drained(&queue);
    wait_until("all to recover", SOON, || {
        letters_in(db, "orders", LetterState::Recovered) == 8
    });
    stop(worker);
    assert_eq!(letters_in(db, "orders", LetterState::Discarded), 1);
    assert_eq!(db.versions(ids[1]).unwrap().len(), 1);
    shared.nothing_is_left();
    no_drift(db);
}

#[test]
fn operators_see_and_do_everything() {
    let shared = Shared::new();
    let queue = shared.queue();
    let db = queue.database();
    let ids = letters(&queue, 3);
    let foreign = |number: i64| {
        let position = number.to_string();
        Captured::new("kafka", position, "orders", "order", b"{}".to_vec())
    };
    assert!(matches!(db.capture(&foreign(1)).unwrap(), Capture::New(_)));
    let many: Vec<Captured> = (1..5).map(foreign).collect();
    assert_eq!(db.capture_many(&many).unwrap().len(), 4);
    assert_eq!(letters_in(db, "orders", LetterState::Open), 3 + 4);
    let counted = stats(db, "orders").expect("letters");
    assert_eq!(counted.open, 7);
    let waiting = queue.enqueue(&Order { number: 1 }).unwrap();
    assert!(db.set_priority(waiting, 3).unwrap());
    assert_eq!(db.job(waiting).unwrap().expect("live").priority, 3);
    assert_eq!(db.cancel(waiting).unwrap(), Cancelled::Dead);
    assert!(db.letter(ids[0]).unwrap().is_some());
    assert_eq!(db.prune(Duration::from_secs(1)).unwrap(), 0);
    shared.nothing_is_left();
    no_drift(db);
}

#[test]
fn effects_and_the_end_of_the_job_commit_together() {
    let shared = Shared::new();
    let queue = shared.queue();
    let mut client = shared.test.client();
    client
        .batch_execute("CREATE TABLE effects (number bigint NOT NULL)")
        .unwrap();
    let handler = |job: &Job<Order>, tx: &mut Transaction<'_>| {
        let number = job.payload().number;
        // With parameters, which the driver prepares, by name, for this transaction.
        tx.execute("INSERT INTO effects VALUES ($1)", &[&number])?;
        match (number % 5, job.attempt()) {
            (0, 1) => Err(Failure::retry("not yet")),
            _ => Ok(()),
        }
    };
    let worker = worker(&queue)
        .slots(3)
        .handle_in_transaction(handler)
        .start()
        .unwrap();
    queue.enqueue_many(&Order::up_to(40)).unwrap();
    let keyed = NewJob::new(&Order { number: 41 }).unwrap().unique("a key");
    queue.add(keyed).unwrap();
    drained(&queue);
    counted(&worker, "41 done", |counts| counts.done == 41);
    let counts = stop(worker).counts;
    assert_eq!((counts.retried, counts.lost), (8, 0));
    let effects = "SELECT count(*) + 100 * count(DISTINCT number) FROM effects";
    assert_eq!(shared.number(effects), 41 + 100 * 41);
    shared.nothing_is_left();
}

#[test]
fn a_cancel_reaches_a_running_job_by_the_next_renewal() {
    let shared = Shared::new();
    let queue = shared.queue();
    let begun = Gate::new();
    begun.open();
    let worker = worker(&queue)
        .lease(Duration::from_secs(3))
        .handle({
            let begun = begun.clone();
            move |job: &Job<Hold>| {
                begun.pass();
                while !job.is_cancelled() {
                    thread::yield_now();
                }
                Err(Failure::retry("told to end"))
            }
        })
        .start()
        .unwrap();
    let id = queue.enqueue(&Hold {}).unwrap();
    begun.wait_for(1);
    assert_eq!(queue.database().cancel(id).unwrap(), Cancelled::Asked);
    counted(&worker, "it to die", |counts| counts.dead == 1);
    stop(worker);
}

#[test]
fn a_breaker_is_learnt_without_a_notification() {
    let shared = Shared::new();
    let queue = shared.queue();
    let db = queue.database();
    let worker = worker(&queue)
        .lease(Duration::from_secs(3))
        .breaker_after(2)
        .handle(|job: &Job<Order>| match job.payload().number {
            1 => Err(Failure::outage("the gateway is down")),
            _ => Ok(()),
        })
        .start()
        .unwrap();
    let act = Act::new().why("a test");
    db.open_breaker("queue:orders", None, &act).unwrap();
    shared.renews(3);
    let ids = queue.enqueue_many(&Order::up_to(9)[1..]).unwrap();
    shared.renews(3);
    assert_eq!(worker.counts().done, 0, "it has learnt that it may not");
    assert!(db.close_breaker("queue:orders", &act).unwrap());
    counted(&worker, "all to be done", |counts| {
        counts.done == ids.len() as u64
    });

    // What its own jobs meet opens it, too.
    queue.enqueue(&Order { number: 1 }).unwrap();
    wait_until("the breaker to open", SOON, || {
        let breakers = db.breakers().unwrap();
        breakers
            .iter()
            .any(|breaker| breaker.name == "queue:orders" && breaker.state != BreakerState::Closed)
    });
    stop(worker);
    shared.nothing_is_left();
}

#[test]
fn an_idle_worker_looks_by_itself_and_nobody_is_notified() {
    let shared = Shared::new();
    let queue = shared.queue();
    let mut listener = shared.test.client();
    listener.batch_execute("LISTEN redrive_ready").unwrap();
    // As it is by default: no poll is set.
    let worker = redrive::Worker::builder(&queue)
        .slots(1)
        .handle(|_: &Job<Order>| Ok(()))
        .start()
        .unwrap();
    for round in 1..=3 {
        queue.enqueue(&Order { number: 1 }).unwrap();
        let delayed = NewJob::new(&Order { number: 2 }).unwrap();
        queue
            .add(delayed.delay(Duration::from_millis(200)))
            .unwrap();
        counted(&worker, "both to be done", |counts| {
            counts.done == 2 * round
        });
        let waiting = "SELECT count(*) FROM redrive.workers WHERE waiting";
        assert_eq!(shared.number(waiting), 0);
    }
    assert_eq!(notified(&mut listener), [""; 0]);
    stop(worker);
}

#[test]
fn a_stop_gives_everything_back_and_leaves_nothing() {
    let shared = Shared::new();
    for round in 0..5 {
        let queue = shared.queue();
        let gate = Gate::new();
        let worker = worker(&queue)
            .slots(2)
            .handle({
                let gate = gate.clone();
                move |_: &Job<Order>| {
                    gate.pass();
                    Ok(())
                }
            })
            .start()
            .unwrap();
        queue.enqueue_many(&Order::up_to(20)).unwrap();
        gate.wait_for(2);
        // They end within the grace, and what follows does not begin.
        let stopper = worker.stopper();
        stopper.stop();
        gate.open();
        let counts = stop(worker).counts;
        assert!((2..20).contains(&counts.done), "round {round}: {counts:?}");
        let own =
            "SELECT (SELECT count(*) FROM redrive.leases) + (SELECT count(*) FROM redrive.workers)";
        assert_eq!(shared.number(own), 0, "round {round}");
        shared.nothing_is_left();
    }
}

#[test]
fn eight_migrators_at_once_apply_each_migration_once() {
    let test = TestDatabase::empty();
    let bouncer = Bouncer::before(test.url(), CONNECTIONS);
    let applied: usize = thread::scope(|scope| {
        let migrators: Vec<_> = (0..8)
            .map(|_| scope.spawn(|| bouncer.open().migrate().unwrap().len()))
            .collect();
        migrators
            .into_iter()
            .map(|migrator| migrator.join().expect("a migrator"))
            .sum()
    });
    let all = "SELECT count(*) FROM redrive.migrations";
    let all: i64 = test.client().query_one(all, &[]).unwrap().get(0);
    assert_eq!(i64::try_from(applied).unwrap(), all);
    bouncer.open().check_schema().unwrap();
}

#[test]
fn a_pool_of_the_users_is_as_good() {
    let shared = Shared::new();
    let config = shared.bouncer.url().parse().unwrap();
    let users = Pool::builder()
        .max_size(5)
        .build(PostgresConnectionManager::new(config, NoTls))
        .unwrap();
    let db = Database::from_pool(users).pooler(Pooler::Transaction);
    let queue = Queue::new(&db, "orders").unwrap();
    let worker = worker(&queue)
        .handle(|_: &Job<Order>| Ok(()))
        .start()
        .unwrap();
    queue.enqueue_many(&Order::up_to(20)).unwrap();
    counted(&worker, "all to be done", |counts| counts.done == 20);
    stop(worker);
    shared.nothing_is_left();
}

#[test]
fn a_silent_server_and_a_new_one_are_outlived() {
    let cluster = Cluster::new();
    cluster.start();
    cluster.migrate();
    let bouncer = Bouncer::before(&cluster.url(), CONNECTIONS);
    let deadline = Duration::from_secs(2);
    let db = bouncer.builder().call_timeout(deadline).open().unwrap();
    let queue = Queue::new(&db, "orders").unwrap();
    let worker = worker(&queue)
        .lease(Duration::from_secs(3))
        .handle(|_: &Job<Order>| Ok(()))
        .start()
        .unwrap();
    let silence = cluster.silence();
    let asked = Instant::now();
    let error = queue.is_drained().expect_err("nobody answers");
    let took = asked.elapsed();
    assert!(error.is_unavailable(), "{error:?}");
    assert!(took < 4 * deadline, "{took:?}");
    drop(silence);
    for (done, fault) in [(1, "the silence"), (2, "a restart"), (3, "a crash")] {
        // Its answer may be lost; a job twice is as good.
        wait_until("a job to be stored", SOON, || {
            queue.enqueue(&Order { number: 1 }).is_ok()
        });
        counted(&worker, fault, |counts| counts.done >= done);
        match done {
            1 => cluster.stop(),
            _ => cluster.crash(),
        }
        cluster.start();
    }
    assert_eq!(worker.trouble(), None);
    wait_until("the server to be back", SOON, || queue.is_drained().is_ok());
    stop(worker);
}

/// `redrive` in a process of its own, which names its statements as any other does.
fn redrive(url: &str, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_operator"))
        .env("DATABASE_URL", url)
        .env_remove("REDRIVE_POOLER")
        .env_remove("RUST_LOG")
        .arg("--no-wait")
        .args(arguments)
        .output()
        .expect("run redrive")
}

#[track_caller]
fn well(output: &Output) -> String {
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {said}", output.status);
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn the_command_line_works_through_it() {
    let shared = Shared::new();
    let payloads = std::env::temp_dir().join(format!("{}.ndjson", shared.test.name()));
    std::fs::write(&payloads, "{\"n\": 1}\n".repeat(2500)).unwrap();
    let file = payloads.to_str().unwrap();
    let ours = |arguments: &[&str]| {
        let arguments = [&["--pooler", "transaction"], arguments].concat();
        well(&redrive(shared.bouncer.url(), &arguments))
    };
    ours(&["migrate"]);
    ours(&["enqueue", "orders", "order", "--file", file]);
    ours(&["enqueue", "orders", "order", r#"{"n": 2}"#]);
    std::fs::remove_file(&payloads).unwrap();
    assert!(ours(&["stats"]).contains("2,501"));
    let purge = "DELETE FROM redrive.jobs WHERE payload = '{\"n\": 1}'";
    shared.test.client().execute(purge, &[]).unwrap();
    ours(&[
        "work", "orders", "--exec", "exit 65", "--drain", "--slots", "2",
    ]);
    assert!(ours(&["dlq", "list", "orders"]).contains("order"));
    ours(&["dlq"]);
    ours(&["dlq", "redrive", "orders", "--yes", "--why", "fixed"]);
    ours(&["work", "orders", "--exec", "cat", "--drain", "--slots", "2"]);
    ours(&["audit"]);
    shared.nothing_is_left();
}

#[test]
fn who_forgets_to_tell_of_it_is_told_what_to_do() {
    let test = TestDatabase::migrated();
    // One connection, on which everybody meets.
    let bouncer = Bouncer::before(test.url(), 1);
    well(&redrive(bouncer.url(), &["stats"]));
    let output = redrive(bouncer.url(), &["stats"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{said}");
    for what in [
        "--pooler transaction",
        "Pooler::Transaction",
        "already exists",
    ] {
        assert!(said.contains(what), "{said}");
    }
    // Who tells of it is not disturbed by who does not.
    let told = ["--pooler", "transaction", "stats"];
    well(&redrive(bouncer.url(), &told));
}

#[test]
fn a_worker_that_was_not_told_of_it_stops_and_says_why() {
    let test = TestDatabase::migrated();
    let bouncer = Bouncer::before(test.url(), 1);
    let db = redrive::connect(bouncer.url()).unwrap();
    let queue = Queue::new(&db, "orders").unwrap();
    let worker = worker(&queue)
        .lease(Duration::from_secs(2))
        .handle(|_: &Job<Order>| Ok(()))
        .start()
        .unwrap();
    queue.enqueue(&Order { number: 1 }).unwrap();
    counted(&worker, "the job to be done", |counts| counts.done == 1);
    // Another program comes to the same connection, and its names are the same.
    let mut other = bouncer.client();
    other
        .batch_execute(
            "DO $$ BEGIN DEALLOCATE ALL; FOR n IN 0..2000 LOOP \
                 EXECUTE format('PREPARE s%s AS SELECT 1', n); END LOOP; END $$",
        )
        .unwrap();
    wait_until("the worker to stop by itself", SOON, || {
        worker.trouble().is_some()
    });
    let why = worker.trouble().expect("trouble").to_owned();
    assert!(why.contains("Pooler::Transaction"), "{why}");
    worker
        .stop(Duration::ZERO)
        .expect_err("it had stopped by itself");
}

#[test]
fn the_exporter_needs_not_be_told() {
    let shared = Shared::new();
    let queue = shared.queue();
    letters(&queue, 2);
    let exporter = Exporter::start(EXPORTER, shared.bouncer.url());
    up(&exporter);
    drop(exporter);
    shared.nothing_is_left();
}
