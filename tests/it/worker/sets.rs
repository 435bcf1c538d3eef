//! Workers of several queues in one process.

use redrive::{Workers, WorkersBuilder};
use redrive_tests::prelude::*;

fn database(connections: u32) -> (TestDatabase, Database) {
    let test = TestDatabase::migrated();
    let db = Database::builder(test.url()).connections(connections);
    (test, db.open().unwrap())
}

/// A builder with these queues of one slot each.
fn each_with(db: &Database, names: &[impl AsRef<str>], handlers: &Handlers) -> WorkersBuilder {
    let all = names.iter();
    all.fold(Workers::builder(db), |builder, name| {
        builder.queue(name.as_ref(), 1, handlers)
    })
}

fn queue(db: &Database, name: &str) -> Queue {
    Queue::new(db, name).unwrap()
}

fn finishing() -> Handlers {
    Handlers::new().handle(|_: &Job<Finish>| Ok(()))
}

#[test]
fn they_work_on_their_queues_and_a_hanging_one_delays_no_other() {
    let (_test, db) = database(10);
    let gate = kept::<Gate>();
    let (payments, mails) = (queue(&db, "payments"), queue(&db, "mails"));
    let handlers = finishing().handle(gate.handler());
    let handlers = handlers.handle(move |job: &Job<Order>| {
        gate.wait_for(1);
        Ok(job.then_in_queue("mails", NewJob::new(&Finish {})?)?)
    });
    let builder = Workers::builder(&db).queue("payments", 1, &handlers);
    let builder = builder.queue_with("mails", |worker| worker.slots(2).handlers(&handlers));
    let workers = builder.each(|worker| worker.version("7")).start().unwrap();
    payments.enqueue(&Hold {}).unwrap();
    mails.enqueue(&Order { number: 1 }).unwrap();
    wait_until("the mails to be sent", SOON, || workers.stats().done == 2);
    assert!(!workers.is_idle(), "a payment hangs");
    assert!(!workers.drain(Duration::ZERO).unwrap());
    gate.open();
    assert!(workers.drain(SOON).unwrap());
    let report = workers.stop(SOON).unwrap();
    assert_eq!((report.stats.done, report.stats.released), (3, 0));
    let by_queue = report.by_queue.iter();
    let done: Vec<_> = by_queue.map(|(queue, it)| (&**queue, it.done)).collect();
    assert_eq!(done, [("mails", 2), ("payments", 1)]);
}

/// While jobs of one queue fill the slots for long, another one does not claim and return its jobs all the time.
#[test]
fn a_queue_claims_nothing_while_every_shared_slot_runs_a_slow_job() {
    let (test, db) = database(10);
    let gate = kept::<Gate>();
    let handlers = finishing().handle(gate.handler());
    let shared = |worker: WorkerBuilder| worker.share(1).handlers(&handlers);
    let builder = Workers::builder(&db).pool(2);
    let builder = builder.queue_with("slow", shared);
    let builder = builder.queue_with("fast", shared);
    let workers = builder.each(|worker| worker.lease(Duration::from_secs(2)));
    let workers = workers.start().unwrap();
    let (slow, fast) = (queue(&db, "slow"), queue(&db, "fast"));
    slow.enqueue_many(&[Hold {}, Hold {}]).unwrap();
    gate.wait_for(2);
    fast.enqueue_many(&[Finish {}; 20]).unwrap();
    super::renewed_for(&mut test.client(), 4000);
    let released = workers.stats().released;
    assert!(released <= 6, "{released} jobs returned");
    gate.open();
    wait_until("all jobs", SOON, || workers.stats().done == 22);
    workers.stop(SOON).unwrap();
}

#[test]
fn a_job_that_hops_between_the_queues_keeps_them_undrained() {
    let (test, db) = database(10);
    let later = NewJob::new(&Finish {}).unwrap().delay(HOUR);
    queue(&db, "b").enqueue_job(later).unwrap();
    // After each look, the job is in the other queue. A renamed function would not know its own parameter.
    let script = "DO $$ BEGIN
             EXECUTE replace(pg_get_functiondef('redrive.is_drained'::regproc), 'is_drained', 'were_drained');
         END $$;
         CREATE OR REPLACE FUNCTION redrive.is_drained(queues text[]) RETURNS boolean LANGUAGE plpgsql AS $$
         DECLARE answer CONSTANT boolean := redrive.were_drained(queues);
         BEGIN
             UPDATE redrive.jobs_delayed d SET queue = CASE d.queue WHEN 'a' THEN 'b' ELSE 'a' END;
             RETURN answer;
         END $$";
    test.sql(script);
    let workers = each_with(&db, &["a", "b"], &finishing()).start().unwrap();
    assert!(!workers.drain(Duration::ZERO).unwrap());
    workers.stop_handle().stop();
    let error = workers.drain(SOON).expect_err("it stops");
    let why = "could not drain queue `a`, `b`: the worker stopped: a stop was requested";
    has(error, why);
    workers.stop(SOON).unwrap();
}

#[test]
fn they_stop_together_within_one_grace_period() {
    let (test, db) = database(10);
    let gate = kept::<Gate>();
    let handlers = Handlers::new().handle(move |job: &Job<Hold>| {
        gate.pass();
        // Each sees the stop while the others still run.
        wait_until("the stop", SOON, || job.is_cancelled());
        gate.pass();
        Err(Failure::retry("stopped"))
    });
    let names = ["a", "b"];
    let workers = each_with(&db, &names, &handlers).start().unwrap();
    for name in names {
        queue(&db, name).enqueue(&Hold {}).unwrap();
    }
    gate.wait_for(2);
    let handle = workers.stop_handle();
    let asked = thread::spawn(move || {
        gate.open();
        handle.stop();
    });
    let report = workers.run_until_signal(Duration::ZERO).unwrap();
    asked.join().unwrap();
    assert_eq!(report.stats.released, 2, "{report:?}");
    super::nothing_left(&test);
}

#[test]
fn when_one_fails_all_stop_claiming() {
    let (_test, db) = database(10);
    let gate = Gate::new();
    let overdue = Handlers::new().handle(gate.handler());
    let short = Duration::from_millis(1);
    let workers = Workers::builder(&db)
        .queue("fine", 1, &finishing())
        .queue_with("overdue", |worker| {
            worker.slots(1).deadline(short).handlers(&overdue)
        })
        .start()
        .unwrap();
    let overdue = queue(&db, "overdue");
    overdue.enqueue_many(&[Hold {}, Hold {}]).unwrap();
    wait_until("the failure", SOON, || workers.failure().is_some());
    assert!(workers.stop_handle().is_stopping());
    let fine = queue(&db, "fine");
    let job = fine.enqueue(&Finish {}).unwrap();
    gate.open();
    let error = workers.stop(SOON).expect_err("one had failed");
    let told = "the worker of queue `overdue` had stopped: 2 handlers exceeded their deadlines \
                and do not end (slots: 1)";
    has(error, told);
    let job = db.admin().job(job).unwrap().expect("nobody has run it");
    assert_eq!(job.attempts, 0);
}

/// Twenty idle queues need what one needs, and each still hears of its jobs.
#[test]
fn many_idle_queues_share_threads_and_connections() {
    let (test, db) = database(10);
    let names: Vec<String> = (0..20).map(|n| format!("queue-{n}")).collect();
    let threads = || fs::read_dir("/proc/self/task").unwrap().count();
    let before = threads();
    let mut client = test.client();
    let workers = each_with(&db, &names, &finishing()).start().unwrap();
    client.reaches("workers WHERE waiting", 20);
    assert!(threads() - before <= 20 + 12, "{} threads", threads());
    let connections = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()
        AND backend_type = 'client backend' AND pid <> pg_backend_pid()";
    // The server may still be ending a session.
    wait_until("four at most", SOON, || {
        scalar(&mut client, connections) <= 4
    });
    for name in &names {
        queue(&db, name).enqueue(&Finish {}).unwrap();
    }
    wait_until("a job of each", SOON, || workers.stats().done == 20);
    assert_eq!(workers.stop(SOON).unwrap().stats.done, 20);
}

/// Nothing announces a job of a transaction that began before its queue was idle. It waits no longer than its
/// transaction took, although polls are rare.
#[test]
fn idle_queues_find_a_job_that_nothing_announced() {
    let (test, db) = database(10);
    let mut client = test.client();
    let late = queue(&db, "late");
    let mut early = client.transaction().unwrap();
    late.enqueue_in(&mut early, &Finish {}).unwrap();
    let workers = Workers::builder(&db).queue("late", 1, &finishing());
    let workers = workers.queue("other", 1, &finishing());
    let workers = workers.each(|worker| worker.poll_interval(Duration::from_mins(1)));
    let workers = workers.start().unwrap();
    let look =
        "SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%which queues have ready jobs%'
        AND datname = current_database() AND pid <> pg_backend_pid()";
    wait_until("a look", SOON, || scalar(&mut test.client(), look) == 1);
    early.commit().unwrap();
    // The next regular poll is 48 s away at least.
    let before_the_poll = Duration::from_secs(30);
    wait_until("the job", before_the_poll, || workers.stats().done == 1);
    workers.stop(SOON).unwrap();
}

#[test]
fn a_set_that_cannot_start_names_why_and_runs_nothing() {
    let (test, db) = database(20);
    let builder = || Workers::builder(&db).queue("fine", 1, &finishing());
    let (all, none) = (finishing(), Handlers::new());
    let shared = |builder: WorkersBuilder, weight| {
        builder.queue_with("b", |worker| worker.share(weight).handlers(&all))
    };
    for (builder, why) in [
        (Workers::builder(&db), "the workers have no queue"),
        (builder().queue(" a", 1, &all), "ends with a space"),
        (builder().queue("b", 0, &all), "slots of 0;"),
        (shared(builder().pool(0), 1), "slots of 0;"),
        (shared(builder(), 0), "a weight of 0; it must"),
        (builder().queue("b", 1, &none), "queue `b` has no handler"),
    ] {
        has(builder.start().expect_err(why), why);
        assert_eq!(test.count("workers"), 0, "{why}");
    }
    // It must read the limits before others count on it.
    test.sql("ALTER TABLE redrive.rate_limits RENAME TO held");
    assert!(builder().start().is_err());
    assert_eq!(test.count("workers"), 0);
    // The schema is only looked at when the first one starts.
    test.sql("DROP SCHEMA redrive CASCADE");
    assert!(builder().start().is_err());
}
