//! Verdicts that are not written at once, or whose answer is lost.

use redrive_tests::prelude::*;

/// What a worker with fast jobs may run ahead: the verdicts that hold up claims, and what it holds and claims.
const AHEAD: usize = 5000 + 4 * 1000 + 2 * 1000 + 32;

#[test]
fn a_worker_whose_verdicts_cannot_be_written_claims_no_more() {
    const JOBS: i64 = 15_000;
    let logged = Logged::start(LevelFilter::Warn);
    let (test, queue) = TestDatabase::with_orders();
    queue.enqueue_many(&Order::up_to(JOBS)).unwrap();
    let mut locker = test.begins("LOCK TABLE redrive.dead_letters IN SHARE MODE");
    let runs = Gate::new();
    runs.open();
    let handler = runs.passing_to(|_: &Job<Order>| Err(Failure::reject("broken")));
    let worker = worker(&queue).slots(32).runs(handler);
    wait_until("verdicts to wait for the lock", SOON, || {
        let waits = |line: &String| line.contains("verdicts not settled yet");
        logged.lines().iter().any(waits)
    });
    let ahead = runs.arrived();
    assert!((1..=AHEAD).contains(&ahead), "{ahead} jobs");
    locker.sql("ROLLBACK");
    let counts = finish(&queue, worker).stats;
    assert_eq!((counts.dead, counts.lost), (JOBS.unsigned_abs(), 0));
    assert_eq!(runs.arrived() as u64, JOBS.unsigned_abs());
}

/// The server commits and ends the session before it answers.
#[test]
fn a_settle_whose_answer_is_lost_is_not_counted_as_lost() {
    // Only a transaction that asks for it waits for the standby.
    let cluster = Cluster::with("synchronous_commit = local");
    cluster.start();
    let db = cluster.migrate();
    let mut client = cluster.client();
    client.sql("ALTER SYSTEM SET synchronous_standby_names = 'nobody'");
    let create = "CREATE TABLE public.effects (number bigint); \
                  CREATE FUNCTION public.wait() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN \
                          PERFORM set_config('synchronous_commit', 'on', true); RETURN NULL; END $$; \
                  CREATE TRIGGER wait AFTER DELETE ON redrive.leases \
                          FOR EACH ROW EXECUTE FUNCTION public.wait(); \
                  SELECT pg_reload_conf()";
    client.sql(create);
    let succeeds: fn(WorkerBuilder) -> WorkerBuilder =
        |builder| builder.handle(|_: &Job<Order>| Ok(()));
    let fails: fn(WorkerBuilder) -> WorkerBuilder =
        |builder| builder.handle(|_: &Job<Order>| Err(Failure::reject("broken")));
    let in_transaction: fn(WorkerBuilder) -> WorkerBuilder = |builder| {
        builder.handle(|_: &Job<Order>, tx: &mut Transaction<'_>| {
            tx.execute("INSERT INTO public.effects VALUES (1)", &[])?;
            Ok(())
        })
    };
    for (name, handler, dead) in [
        ("succeeds", succeeds, 0),
        ("fails", fails, 1),
        ("in a transaction", in_transaction, 0),
    ] {
        let queue = Queue::new(&db, name).unwrap();
        let worker = handler(worker(&queue)).started();
        queue.enqueue(&Order { number: 1 }).unwrap();
        wait_until("the commit to wait for the standby", SOON, || {
            let ends = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'";
            !client.query(ends, &[]).unwrap().is_empty()
        });
        counted(&worker, "the verdict", |counts| {
            counts.done + counts.dead + counts.lost == 1
        });
        let counts = stop(worker).stats;
        assert_eq!((counts.dead, counts.lost), (dead, 0), "{name}");
        assert_eq!((counts.retried, counts.released), (0, 0), "{name}");
        let refused = "metric_deltas WHERE 'refused' = ANY (keys)";
        assert_eq!(client.count(refused), 0);
    }
    let effects = "SELECT count(*) FROM public.effects";
    assert_eq!(scalar(&mut client, effects), 1);
}
