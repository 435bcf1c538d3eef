//! The calls: every one of the library that asks a server something, a row each.

use std::cell::Cell;
use std::time::{Duration, Instant};

use redrive::metrics::MetricsCollector;
use redrive::{
    Act, Audit, Captured, Database, Edit, Error, Failure, GroupId, GroupState, Groups, Job, JobId,
    Letter, LetterState, Letters, NewJob, Policy, PolicyMode, Queue, Redaction, RedactionId,
    RedriveOptions, Result, Retention, RunId, RunOptions, Validators, Worker,
};
use redrive_tests::{Cable, Finish, Gate, Hold, Order, worker};

/// When the server falls silent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum When {
    /// Before there is a connection.
    Unconnected,
    /// When there is one, before the first answer.
    Connected,
    /// After so many more answers.
    Midway(i64),
}

/// Where a call is made.
pub(super) struct Scene {
    pub(super) db: Database,
    pub(super) cable: Cable,
    pub(super) when: When,
    /// A letter that there is.
    pub(super) letter: JobId,
    /// When the server fell silent, and the call began.
    pub(super) begun: Cell<Option<Instant>>,
}

impl Scene {
    /// From here on the server is silent, or soon will be, and time counts.
    pub(super) fn hush(&self) {
        match self.when {
            When::Unconnected => self.cable.fall_silent(),
            When::Connected => {
                self.db.check_schema().expect("a connection");
                self.cable.fall_silent();
            }
            When::Midway(answers) => {
                self.db.check_schema().expect("a connection");
                self.cable.fall_silent_after(answers);
            }
        }
        self.begun.set(Some(Instant::now()));
    }

    fn queue(&self) -> Queue {
        Queue::new(&self.db, "orders").expect("a good name")
    }
}

/// Within what a call answers.
#[derive(Clone, Copy, Debug)]
pub(super) enum Limit {
    /// The time to connect, and a second.
    Connect,
    /// The same, by the default of ten seconds.
    DefaultConnect,
    /// The usual deadline of a call, so many times.
    Usual(u32),
    /// The deadline of what is about many letters, and the usual one.
    Bulk,
    /// That of a scrape.
    Scrape,
}

/// What a collector is told.
const SCRAPE: Duration = Duration::from_millis(700);

/// How long the handlers of a worker get at its stop.
const GRACE: Duration = Duration::from_millis(100);

impl Limit {
    pub(super) fn of(self, connect: Duration, usual: Duration, bulk: Duration) -> Duration {
        match self {
            Limit::Connect => connect + Duration::from_secs(1),
            Limit::DefaultConnect => Duration::from_secs(11),
            Limit::Usual(calls) => usual * calls,
            Limit::Bulk => bulk + usual,
            Limit::Scrape => SCRAPE,
        }
    }
}

/// How a call is made.
enum How {
    /// In silence.
    Plain(fn(&Scene) -> Result<()>),
    /// In silence that it calls for itself, when it has what it needs.
    Staged(fn(&Scene) -> Result<()>),
}

/// A call.
pub(super) struct Call {
    /// As it is written in the library.
    pub(super) name: &'static str,
    pub(super) limit: Limit,
    how: How,
}

impl Call {
    pub(super) fn make(&self, scene: &Scene) -> Result<()> {
        match self.how {
            How::Plain(call) => {
                scene.hush();
                call(scene)
            }
            How::Staged(call) => call(scene),
        }
    }

    /// Whether it can be in this situation: who opens a pool has no connection.
    pub(super) fn comes(&self, when: When) -> bool {
        match self.limit {
            Limit::Connect | Limit::DefaultConnect => when == When::Unconnected,
            Limit::Usual(_) | Limit::Bulk | Limit::Scrape => true,
        }
    }
}

const fn usual(name: &'static str, call: fn(&Scene) -> Result<()>) -> Call {
    Call {
        name,
        limit: Limit::Usual(1),
        how: How::Plain(call),
    }
}

const fn bulk(name: &'static str, call: fn(&Scene) -> Result<()>) -> Call {
    Call {
        name,
        limit: Limit::Bulk,
        how: How::Plain(call),
    }
}

const fn staged(name: &'static str, limit: Limit, call: fn(&Scene) -> Result<()>) -> Call {
    Call {
        name,
        limit,
        how: How::Staged(call),
    }
}

fn orders() -> Letters {
    Letters::queue("orders")
}

fn why() -> Act {
    Act::new().why("a test")
}

fn order() -> NewJob {
    NewJob::new(&Order { number: 9 }).expect("a good job")
}

fn captured() -> Captured {
    Captured::new("kafka:orders", "0/1", "orders", "order", *b"{}")
}

/// A worker that has something in hand when the server falls silent, and is told to stop then.
fn stop_a_worker(scene: &Scene, builder: redrive::WorkerBuilder, gate: &Gate) -> Result<()> {
    let worker: Worker = builder.start()?;
    gate.wait_for(1);
    scene.hush();
    let stopped = worker.stop(GRACE);
    gate.open();
    stopped.map(drop)
}

/// A queue of the scene's own: others would take its jobs.
fn own_queue(scene: &Scene, name: &str) -> Queue {
    Queue::new(&scene.db, &format!("{name} {:?}", scene.when)).expect("a good name")
}

/// All of them, in the order of the pipeline.
pub(super) const CALLS: &[Call] = &[
    staged("connect", Limit::DefaultConnect, |scene| {
        scene.hush();
        redrive::connect(scene.cable.url()).map(drop)
    }),
    staged("DatabaseBuilder::open", Limit::Connect, |scene| {
        scene.hush();
        Database::builder(scene.cable.url())
            .connect_timeout(super::CONNECT)
            .open()
            .map(drop)
    }),
    Call {
        name: "Database::migrate",
        limit: Limit::Usual(2),
        how: How::Plain(|scene| scene.db.migrate().map(drop)),
    },
    usual("Database::check_schema", |scene| scene.db.check_schema()),
    usual("Database::lapses", |scene| scene.db.lapses().map(drop)),
    usual("Queue::is_drained", |scene| {
        scene.queue().is_drained().map(drop)
    }),
    usual("Queue::enqueue", |scene| {
        scene.queue().enqueue(&Order { number: 5 }).map(drop)
    }),
    usual("Queue::add", |scene| scene.queue().add(order()).map(drop)),
    usual("Queue::add_unique", |scene| {
        scene.queue().add_unique(order().unique("k")).map(drop)
    }),
    usual("Queue::enqueue_many", |scene| {
        scene.queue().enqueue_many(&Order::up_to(10)).map(drop)
    }),
    // By COPY, in a transaction of many answers.
    usual("Queue::add_many", |scene| {
        let jobs = (0..1500).map(|_| order()).collect();
        scene.queue().add_many(jobs).map(drop)
    }),
    staged("WorkerBuilder::start", Limit::Usual(3), |scene| {
        let worker = worker(&own_queue(scene, "start")).handle(|_: &Job<Order>| Ok(()));
        scene.hush();
        let started = worker.start()?;
        // It had all its answers; what is left of it ends by itself.
        drop(started);
        Ok(())
    }),
    staged("Worker::stop", Limit::Usual(6), |scene| {
        let (queue, gate) = (own_queue(scene, "stop"), Gate::new());
        queue.enqueue(&Hold {})?;
        let builder = worker(&queue).handle({
            let gate = gate.clone();
            move |_: &Job<Hold>| {
                gate.pass();
                Ok(())
            }
        });
        stop_a_worker(scene, builder, &gate)
    }),
    // A handler whose own transaction is stuck, and its slot with it.
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
    usual("Database::breakers", |scene| scene.db.breakers().map(drop)),
    usual("Database::open_breaker", |scene| {
        scene.db.open_breaker("tax", None, &why())
    }),
    usual("Database::close_breaker", |scene| {
        scene.db.close_breaker("mail", &why()).map(drop)
    }),
    bulk("Database::groups", |scene| {
        scene.db.groups(&Groups::all()).map(drop)
    }),
    bulk("Database::group", |scene| {
        scene.db.group(GroupId::new(1)).map(drop)
    }),
    usual("Database::mark_group", |scene| {
        let (group, state) = (GroupId::new(1), GroupState::Acknowledged);
        scene.db.mark_group(group, state, &why()).map(drop)
    }),
    usual("Database::note_group", |scene| {
        let note = Some("seen");
        scene.db.note_group(GroupId::new(1), note, &why()).map(drop)
    }),
    usual("Database::own_group", |scene| {
        let owner = Some("me");
        scene.db.own_group(GroupId::new(1), owner, &why()).map(drop)
    }),
    bulk("Database::letters", |scene| {
        scene.db.letters(&orders()).map(drop)
    }),
    bulk("Database::letter", |scene| {
        scene.db.letter(scene.letter).map(drop)
    }),
    bulk("Database::count_letters", |scene| {
        scene.db.count_letters(&orders()).map(drop)
    }),
    bulk("Database::each_letter", |scene| {
        let seen = scene.db.each_letter(&orders(), |_| Ok::<(), Error>(()));
        seen.map(drop)
    }),
    bulk("Database::capture", |scene| {
        scene.db.capture(&captured()).map(drop)
    }),
    bulk("Database::capture_many", |scene| {
        scene.db.capture_many([&captured(), &captured()]).map(drop)
    }),
    bulk("Database::discard", |scene| {
        let nobodys = Letters::ids([JobId::new(1 << 40)]);
        scene.db.discard(&nobodys, &why()).map(drop)
    }),
    bulk("Database::prune", |scene| {
        scene.db.prune(Duration::from_hours(24)).map(drop)
    }),
    bulk("Database::prune_by", |scene| {
        scene
            .db
            .prune_by(Duration::from_hours(24), &why())
            .map(drop)
    }),
    bulk("Database::edit", |scene| {
        let edit = Edit::merge(r#"{"number": 7}"#)?;
        scene.db.edit(&orders(), &edit, &why()).map(drop)
    }),
    bulk("Database::preview_edit", |scene| {
        let edit = Edit::merge(r#"{"number": 8}"#)?;
        scene
            .db
            .preview_edit(&orders(), &edit, |_| Ok::<(), Error>(()))
    }),
    bulk("Database::versions", |scene| {
        scene.db.versions(scene.letter).map(drop)
    }),
    bulk("Database::restore_version", |scene| {
        scene
            .db
            .restore_version(scene.letter, None, &why())
            .map(drop)
    }),
    bulk("Database::redrive", |scene| {
        scene.db.redrive(&orders().limit(1), &why()).map(drop)
    }),
    bulk("Database::redrive_with", |scene| {
        let options = RedriveOptions::new().priority(-1);
        scene
            .db
            .redrive_with(&orders().limit(1), &options, &why())
            .map(drop)
    }),
    bulk("Database::preview_redrive", |scene| {
        let options = RedriveOptions::new();
        scene.db.preview_redrive(&orders(), &options).map(drop)
    }),
    bulk("Database::create_run", |scene| {
        let options = RunOptions::new();
        scene.db.create_run(&orders(), &options, &why()).map(drop)
    }),
    bulk("Database::start_run", |scene| {
        let options = RunOptions::new();
        scene.db.start_run(&orders(), &options, &why()).map(drop)
    }),
    usual("Database::drive_run", |scene| {
        scene.db.drive_run(RunId::new(1)).map(drop)
    }),
    staged("RunDriver::step", Limit::Bulk, |scene| {
        scene.db.capture(&Captured::new(
            "a test",
            format!("{:?}", scene.when),
            "steps",
            "order",
            *b"{}",
        ))?;
        let (steps, options) = (Letters::queue("steps"), RunOptions::new());
        let run = scene.db.start_run(&steps, &options, &why())?;
        let (_, mut driver) = run.expect("a letter to drive");
        scene.hush();
        loop {
            driver.step()?;
        }
    }),
    usual("Database::runs", |scene| scene.db.runs(5).map(drop)),
    usual("Database::run", |scene| {
        scene.db.run(RunId::new(1)).map(drop)
    }),
    bulk("Database::run_skips", |scene| {
        scene.db.run_skips(RunId::new(1)).map(drop)
    }),
    usual("Database::pause_run", |scene| {
        scene.db.pause_run(RunId::new(1), &why()).map(drop)
    }),
    usual("Database::resume_run", |scene| {
        scene.db.resume_run(RunId::new(1), &why()).map(drop)
    }),
    usual("Database::cancel_run", |scene| {
        scene.db.cancel_run(RunId::new(1 << 40), &why()).map(drop)
    }),
    bulk("Database::redrive_to", |scene| {
        let sink = |_: &Letter| Err(Failure::retry("not today"));
        scene.db.redrive_to(&orders(), &sink, &why()).map(drop)
    }),
    bulk("Database::validate", |scene| {
        let validators = Validators::new().check(|_: &Order| Err("never good"));
        scene.db.validate(&orders(), &validators).map(drop)
    }),
    usual("Database::set_policy", |scene| {
        scene.db.set_policy(&Policy::new("daily", orders()), &why())
    }),
    usual("Database::set_policy_mode", |scene| {
        let mode = PolicyMode::DryRun;
        scene.db.set_policy_mode("nightly", mode, &why()).map(drop)
    }),
    usual("Database::remove_policy", |scene| {
        scene.db.remove_policy("none", &why()).map(drop)
    }),
    usual("Database::policies", |scene| scene.db.policies().map(drop)),
    usual("Database::add_redaction", |scene| {
        let secret = Redaction::new().queue("never").path("/secret");
        scene.db.add_redaction(&secret, &why()).map(drop)
    }),
    usual("Database::remove_redaction", |scene| {
        scene
            .db
            .remove_redaction(RedactionId::new(1 << 40), &why())
            .map(drop)
    }),
    usual("Database::redactions", |scene| {
        scene.db.redactions().map(drop)
    }),
    usual("Database::set_retention", |scene| {
        let month = Duration::from_hours(720);
        let rule = Retention::archive(LetterState::Discarded, month).queue("never");
        scene.db.set_retention(&rule, &why())
    }),
    usual("Database::remove_retention", |scene| {
        let state = LetterState::Discarded;
        scene
            .db
            .remove_retention(Some("never"), state, &why())
            .map(drop)
    }),
    usual("Database::retention", |scene| {
        scene.db.retention().map(drop)
    }),
    bulk("Database::retention_due", |scene| {
        scene.db.retention_due().map(drop)
    }),
    bulk("Database::retain", |scene| {
        scene.db.retain(&why()).map(drop)
    }),
    bulk("Database::archived_letters", |scene| {
        scene.db.archived_letters(None, None, 10).map(drop)
    }),
    usual("Database::job", |scene| {
        scene.db.job(JobId::new(1)).map(drop)
    }),
    usual("Database::cancel", |scene| {
        scene.db.cancel(JobId::new(1 << 40)).map(drop)
    }),
    usual("Database::set_priority", |scene| {
        scene.db.set_priority(JobId::new(1 << 40), 3).map(drop)
    }),
    bulk("Database::stats", |scene| scene.db.stats(None).map(drop)),
    bulk("Database::audit", |scene| {
        scene.db.audit(&Audit::all()).map(drop)
    }),
    bulk("Database::audit_counters", |scene| {
        scene.db.audit_counters().map(drop)
    }),
    // It has no errors: it says that the database is not up.
    Call {
        name: "MetricsCollector::collect",
        limit: Limit::Scrape,
        how: How::Plain(|scene| {
            let collector = MetricsCollector::new(&scene.db).deadline(SCRAPE);
            let families = prometheus::core::Collector::collect(&collector);
            let up = families.iter().find(|family| family.name() == "redrive_up");
            let up = up.expect("it is told whether it is up").get_metric()[0]
                .get_gauge()
                .get_value();
            if up > 0.5 { Ok(()) } else { Err(away()) }
        }),
    },
];

/// An error as a database that is away makes it.
fn away() -> Error {
    let nowhere = "postgres://postgres@127.0.0.1:1/nowhere";
    redrive::connect(nowhere)
        .map(drop)
        .expect_err("nobody is there")
}
