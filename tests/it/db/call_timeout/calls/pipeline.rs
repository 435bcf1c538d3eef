//! The calls on the database, queues, workers and jobs.

use std::ops::ControlFlow;
use std::time::Duration;

use redrive::admin::{AuditFilter, JobChange, JobFilter};
use redrive::dlq::Edit;
use redrive::metrics::MetricsCollector;
use redrive::{
    Database, Error, Failure, GroupPolicy, Job, JobId, NewJob, PauseEnd, Queue, RateLimit,
    RateLimited, Result, Worker,
};
use redrive_tests::{Finish, Gate, Hold, Order, worker};

use super::{Call, GRACE, How, Limit, SCRAPE, Scene, bulk, operator, staged, usual};

/// Continues a call that works in batches.
const GO_ON: ControlFlow<()> = ControlFlow::Continue(());

fn order() -> NewJob {
    NewJob::new(&Order { number: 9 }).expect("a good job")
}

/// Stops a worker that runs a job when the server becomes silent.
fn stop_a_worker(scene: &Scene, builder: redrive::WorkerBuilder, gate: &Gate) -> Result<()> {
    let worker: Worker = builder.start()?;
    gate.wait_for(1);
    scene.hush();
    let stopped = worker.stop(GRACE);
    gate.open();
    stopped.map(drop)
}

/// A separate queue, because another worker would claim its jobs.
fn own_queue(scene: &Scene, name: &str) -> Queue {
    Queue::new(&scene.db, &format!("{name} {:?}", scene.when)).expect("a valid name")
}

pub(super) const CALLS: &[Call] = &[
    staged("connect", Limit::DefaultConnect, |scene| {
        scene.hush();
        redrive::connect(scene.proxy.url()).map(drop)
    }),
    staged("DatabaseBuilder::open", Limit::Connect, |scene| {
        scene.hush();
        Database::builder(scene.proxy.url())
            .connect_timeout(super::super::CONNECT)
            .open()
            .map(drop)
    }),
    Call {
        name: "Database::migrate",
        limit: Limit::Usual(2),
        how: How::Plain(|scene| scene.db.migrate().map(drop)),
    },
    usual("Database::check_schema", |scene| scene.db.check_schema()),
    usual("Database::check_session", |scene| scene.db.check_session()),
    usual("Admin::durability_warnings", |scene| {
        scene.db.admin().durability_warnings().map(drop)
    }),
    usual("Admin::schema_drift", |scene| {
        scene.db.admin().schema_drift().map(drop)
    }),
    usual("Queue::is_drained", |scene| {
        scene.queue().is_drained().map(drop)
    }),
    usual("Queue::pause", |scene| {
        own_queue(scene, "paused").pause(PauseEnd::Resumed, &operator())
    }),
    usual("Queue::limit_rate", |scene| {
        let limit = RateLimit::per(1, Duration::from_secs(1));
        own_queue(scene, "limited").limit_rate(RateLimited::Queue, limit, &operator())
    }),
    usual("Queue::unlimit_rate", |scene| {
        own_queue(scene, "limited")
            .unlimit_rate(RateLimited::Queue, &operator())
            .map(drop)
    }),
    usual("Queue::rate_limits", |scene| {
        own_queue(scene, "limited").rate_limits().map(drop)
    }),
    usual("Admin::rate_limits", |scene| {
        scene.db.admin().rate_limits(None).map(drop)
    }),
    usual("Queue::resume", |scene| {
        own_queue(scene, "paused").resume(&operator()).map(drop)
    }),
    usual("Queue::set_group_policy", |scene| {
        own_queue(scene, "grouped").set_group_policy(GroupPolicy::Fair, &operator())
    }),
    usual("Queue::group_policy", |scene| {
        own_queue(scene, "grouped").group_policy().map(drop)
    }),
    usual("Queue::release_group", |scene| {
        own_queue(scene, "grouped")
            .release_group("a", &operator())
            .map(drop)
    }),
    usual("Admin::held_groups_by_queue", |scene| {
        scene.db.admin().held_groups_by_queue().map(drop)
    }),
    usual("Queue::held_groups", |scene| {
        own_queue(scene, "grouped").held_groups(10).map(drop)
    }),
    usual("Queue::enqueue", |scene| {
        scene.queue().enqueue(&Order { number: 5 }).map(drop)
    }),
    usual("Queue::enqueue_job", |scene| {
        scene.queue().enqueue_job(order().unique("k")).map(drop)
    }),
    usual("Queue::enqueue_many", |scene| {
        scene.queue().enqueue_many(&Order::up_to(10)).map(drop)
    }),
    // By COPY, in a transaction of many answers.
    usual("Queue::enqueue_jobs", |scene| {
        let jobs: Vec<_> = (0..1500).map(|_| order()).collect();
        scene.queue().enqueue_jobs(&jobs).map(drop)
    }),
    staged("WorkerBuilder::start", Limit::Usual(3), |scene| {
        let worker = worker(&own_queue(scene, "start")).handle(|_: &Job<Order>| Ok(()));
        scene.hush();
        let started = worker.start()?;
        // It received every reply and ends.
        drop(started);
        Ok(())
    }),
    staged("Worker::drain", Limit::Usual(2), |scene| {
        let queue = own_queue(scene, "drain");
        let worker = worker(&queue).handle(|_: &Job<Order>| Ok(())).start()?;
        scene.hush();
        worker.drain(Duration::from_mins(10)).map(drop)
    }),
    staged("Worker::stop", Limit::Usual(6), |scene| {
        let (queue, gate) = (own_queue(scene, "stop"), Gate::new());
        queue.enqueue(&Hold {})?;
        let builder = worker(&queue).handle(gate.handler());
        stop_a_worker(scene, builder, &gate)
    }),
    // A handler whose transaction hangs, and its slot with it.
    staged("Worker::stop", Limit::Usual(6), |scene| {
        let (queue, gate) = (own_queue(scene, "transaction"), Gate::new());
        queue.enqueue(&Finish {})?;
        let builder = worker(&queue).handle_in_transaction({
            let gate = gate.clone();
            move |_: &Job<Finish>, tx: &mut postgres::Transaction<'_>| {
                gate.pass();
                tx.batch_execute("SELECT 1").map_err(Failure::from)
            }
        });
        stop_a_worker(scene, builder, &gate)
    }),
    usual("Admin::breakers", |scene| {
        scene.db.admin().breakers().map(drop)
    }),
    usual("Admin::open_breaker", |scene| {
        scene.db.admin().open_breaker("tax", None, &operator())
    }),
    usual("Admin::close_breaker", |scene| {
        scene
            .db
            .admin()
            .close_breaker("mail", &operator())
            .map(drop)
    }),
    usual("Admin::job", |scene| {
        scene.db.admin().job(JobId::new(1)).map(drop)
    }),
    usual("Admin::cancel", |scene| {
        scene.db.admin().cancel(JobId::new(1 << 40)).map(drop)
    }),
    usual("Admin::set_priority", |scene| {
        scene
            .db
            .admin()
            .set_priority(JobId::new(1 << 40), 3)
            .map(drop)
    }),
    bulk("Jobs::list", |scene| {
        scene.db.admin().jobs().list(&JobFilter::new()).map(drop)
    }),
    bulk("Jobs::count", |scene| {
        scene.db.admin().jobs().count(&JobFilter::new()).map(drop)
    }),
    bulk("Jobs::preview", |scene| {
        let jobs = scene.db.admin().jobs();
        jobs.preview(&JobFilter::new(), JobChange::Cancel).map(drop)
    }),
    bulk("Jobs::cancel", |scene| {
        let jobs = scene.db.admin().jobs();
        jobs.cancel(JobId::new(1 << 40), &operator()).map(drop)
    }),
    bulk("Jobs::change", |scene| {
        let jobs = scene.db.admin().jobs();
        let none = JobFilter::new().ids([JobId::new(1 << 40)]);
        jobs.change(&none, JobChange::RunNow, &operator()).map(drop)
    }),
    bulk("Jobs::change_while", |scene| {
        let jobs = scene.db.admin().jobs();
        let none = JobFilter::new().ids([JobId::new(1 << 40)]);
        jobs.change_while(&none, JobChange::RunNow, &operator(), |_| GO_ON)
            .map(drop)
    }),
    bulk("Jobs::edit", |scene| {
        let jobs = scene.db.admin().jobs();
        let edit = Edit::merge("{}").expect("an edit");
        jobs.edit(&JobFilter::new(), &edit, &operator()).map(drop)
    }),
    bulk("Jobs::edit_while", |scene| {
        let jobs = scene.db.admin().jobs();
        let edit = Edit::merge("{}").expect("an edit");
        jobs.edit_while(&JobFilter::new(), &edit, &operator(), |_| GO_ON)
            .map(drop)
    }),
    bulk("Jobs::preview_edit", |scene| {
        let jobs = scene.db.admin().jobs();
        let edit = Edit::merge("{}").expect("an edit");
        jobs.preview_edit(&JobFilter::new(), &edit, |_| Ok::<(), Error>(()))
    }),
    usual("Admin::queue_names", |scene| {
        scene.db.admin().queue_names("orders", 5).map(drop)
    }),
    bulk("Admin::stats", |scene| {
        scene.db.admin().stats(None).map(drop)
    }),
    bulk("Admin::audit", |scene| {
        scene.db.admin().audit(&AuditFilter::new()).map(drop)
    }),
    bulk("Admin::audit_counters", |scene| {
        scene.db.admin().audit_counters().map(drop)
    }),
    bulk("Admin::faults", |scene| scene.db.admin().faults().map(drop)),
    bulk("Admin::repair", |scene| {
        scene
            .db
            .admin()
            .repair(&redrive::Operator::default())
            .map(drop)
    }),
    // It returns no error: it reports that the database is down.
    Call {
        name: "MetricsCollector::collect",
        limit: Limit::Scrape,
        how: How::Plain(|scene| {
            let collector = MetricsCollector::new(&scene.db).deadline(SCRAPE);
            let families = prometheus::core::Collector::collect(&collector);
            let up = families.iter().find(|family| family.name() == "redrive_up");
            let up = up
                .expect("it reports whether the database is up")
                .get_metric()[0]
                .get_gauge()
                .get_value();
            if up > 0.5 { Ok(()) } else { Err(away()) }
        }),
    },
];

/// Returns the error for an unavailable database.
fn away() -> Error {
    let nowhere = "postgres://postgres@127.0.0.1:1/nowhere";
    redrive::connect(nowhere).map(drop).expect_err("no server")
}
