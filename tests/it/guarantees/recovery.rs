//! Recovery: a worker survives every fault of the database and works again without help.
//!
//! A bound on its time would be a sum of deadlines. A busy machine may exceed any of them, so these tests wait for the
//! recovery alone.

use redrive_servers::Server;
use redrive_tests::prelude::*;

/// The shortest lease, and deadlines that a busy machine keeps.
const LEASE: Duration = Duration::from_secs(2);
const CONNECT: Duration = Duration::from_secs(3);
const CALL: Duration = Duration::from_secs(3);

fn impatient(url: &str) -> DatabaseBuilder {
    Database::builder(url)
        .connect_timeout(CONNECT)
        .call_timeout(CALL)
}

fn builder(url: &str) -> WorkerBuilder {
    let db = eventually("a connection", || impatient(url).open());
    let queue = Queue::new(&db, "orders").expect("a valid name");
    worker(&queue).lease(LEASE).handle(|_: &Job<Order>| Ok(()))
}

/// A worker on a server with faults.
struct Patient {
    cluster: Cluster,
    worker: Worker,
    numbers: i64,
}

impl Patient {
    fn new() -> Patient {
        let cluster = Cluster::new();
        cluster.start();
        cluster.migrate();
        let builder = builder(&cluster.url());
        let mut patient = Patient {
            worker: builder.started(),
            cluster,
            numbers: 0,
        };
        patient.works_again("its start");
        patient
    }

    /// Opens a connection, as soon as the server accepts one.
    fn client(&self) -> Client {
        eventually("the server to accept a connection", || {
            Client::connect(&self.cluster.url(), NoTls)
        })
    }

    /// After the fault, a new job completes.
    fn works_again(&mut self, after: &str) {
        self.numbers += 1;
        let (done, number) = (self.worker.stats().done, self.numbers);
        let payload = format!(r#"{{"number": {number}}}"#);
        // The fault may not be over; a duplicate does no harm.
        let enqueue = "SELECT redrive.enqueue('orders', 'order', $1::text::jsonb)";
        eventually("the job to be stored", || {
            self.client().execute(enqueue, &[&payload])
        });
        wait_until(after, SOON, || self.worker.stats().done > done);
        assert_eq!(self.worker.failure(), None);
    }
}

/// Waits until calls of another handle missed their deadline: those of the worker did then, too.
fn until_calls_fail(url: &str) {
    let begun = Instant::now();
    wait_until("calls to fail for longer than a lease", SOON, || {
        let failed = impatient(url).open().is_err();
        failed && begun.elapsed() > LEASE + CALL
    });
}

#[test]
fn a_worker_recovers_from_each_fault_of_the_server() {
    let mut patient = Patient::new();

    let backend = "SELECT pid FROM pg_stat_activity WHERE backend_type = 'client backend'
                   AND pid <> pg_backend_pid() LIMIT 1";
    let pid: i32 = patient.client().ask(backend, &[]);
    Server::kill_backend(pid);
    patient.works_again("the death of a backend, and of all others with it");

    patient.cluster.stop();
    patient.cluster.start();
    patient.works_again("a restart");

    patient.cluster.crash();
    until_calls_fail(&patient.cluster.url());
    patient.cluster.start();
    patient.works_again("a crash, and a lease without a server");

    let silence = patient.cluster.freeze();
    until_calls_fail(&patient.cluster.url());
    drop(silence);
    patient.works_again("a frozen server");
}

#[test]
fn the_jobs_of_a_lost_worker_are_claimed_by_another() {
    let test = TestDatabase::migrated();
    let proxy = Proxy::to(test.url());
    let (gate, second) = (Gate::new(), Gate::new());
    let hold = |url: &str, gate: &Gate| builder(url).handle(gate.handler());
    let gone = hold(proxy.url(), &gate).started();
    let queue = test.queue("orders");
    queue.enqueue(&Hold {}).unwrap();
    gate.wait_for(1);
    let other = hold(test.url(), &second).started();
    // It can no longer renew.
    proxy.set_mode(Mode::Refuse);
    second.wait_for(1);
    second.open();
    wait_until("the other to end the job", SOON, || other.stats().done == 1);
    gate.open();
    drop((gone, other));
}

#[test]
fn a_worker_survives_schema_changes_under_its_plans() {
    let (test, queue, mut client) = TestDatabase::with_session();
    let worker = builder(test.url()).started();
    // So many are copied, and with all that is beyond a plain job.
    let labelled = vec![new_order(1).priority(3); 1001];
    for change in [
        "ALTER TABLE redrive.jobs ADD COLUMN one_more text",
        "ALTER TYPE redrive.job_meta ADD ATTRIBUTE one_more text",
        "ALTER TABLE redrive.workers ADD COLUMN one_more text",
        "ALTER TABLE redrive.leases ADD COLUMN one_more text",
        "ANALYZE",
    ] {
        queue.enqueue_many(&Order::up_to(50)).unwrap();
        client.sql(change);
        queue.enqueue_many(&Order::up_to(50)).unwrap();
        queue.enqueue_jobs(&labelled).unwrap();
        drained(&queue);
    }
    let stopped = stop(worker);
    assert_eq!((stopped.stats.done, stopped.stats.retried), (5 * 1101, 0));
}
