//! A scene: jobs, workers and what happens to them; and the rules that must hold in every order.

use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::value::RawValue;
use shuttle::rand::Rng;
use shuttle::scheduler::{PctScheduler, RandomScheduler, Scheduler};
use uuid::Uuid;

use crate::database::Database;
use crate::failure::Failure;
use crate::floor::{Instant, clock, thread};
use crate::job::Job;
use crate::queue::Queue;
use crate::server::{Lease, Server, Stored, Tables};
use crate::tripped::State;
use crate::worker::{Stopped, Worker, WorkerBuilder};

/// No execution needs as many steps; one that does never ends.
const MOST_STEPS: usize = 500_000;

thread_local! {
    static LAST: Mutex<Option<Arc<Server>>> = const { Mutex::new(None) };
}

/// A number below this one, from the seed of the schedule.
pub(crate) fn random(below: usize) -> usize {
    shuttle::rand::thread_rng().gen_range(0..below)
}

/// A time up to this one, in milliseconds.
pub(crate) fn random_time(most: Duration) -> Duration {
    let most = usize::try_from(most.as_millis()).unwrap_or(usize::MAX - 1);
    Duration::from_millis(random(most + 1) as u64)
}

/// Plays a scene under so many schedules, each from a seed of its own, one after the other.
///
/// # Panics
/// With the first schedule that breaks a rule, deadlocks or never ends: its seed, what is wrong,
/// and what the server did.
pub(crate) fn play(scene: fn(), schedules: u64, seed: u64) {
    for seed in seed..seed + schedules {
        let failed = catch_unwind(AssertUnwindSafe(|| one(scene, seed))).err();
        let Some(failed) = failed else { continue };
        let why = failed
            .downcast_ref::<String>()
            .map(String::as_str)
            .or_else(|| failed.downcast_ref::<&str>().copied())
            .unwrap_or("a panic without a text");
        let log = LAST.with(|last| {
            let last = last.lock().unwrap_or_else(PoisonError::into_inner);
            last.as_ref()
                .map_or_else(String::new, |server| server.tables().log.join("\n"))
        });
        panic!("seed {seed}: {why}\n\nWhat the server did:\n{log}");
    }
}

fn one(scene: fn(), seed: u64) {
    let mut config = shuttle::Config::new();
    config.stack_size = 1 << 19;
    config.max_steps = shuttle::MaxSteps::FailAfter(MOST_STEPS);
    config.failure_persistence = shuttle::FailurePersistence::None;
    config.silence_warnings = true;
    // Every other one prefers some threads for long.
    let scheduler: Box<dyn Scheduler + Send> = match seed % 2 {
        0 => Box::new(RandomScheduler::new_from_seed(seed, 1)),
        _ => Box::new(PctScheduler::new_from_seed(seed, 3, 1)),
    };
    shuttle::Runner::new(scheduler, config).run(move || {
        fastrand::seed(seed);
        clock::with_clock(scene);
    });
}

/// What handlers did.
#[derive(Debug, Default)]
struct Runs {
    begun: BTreeMap<i64, Vec<Instant>>,
    succeeded: BTreeSet<i64>,
    /// Each may run once in a lease.
    of_leases: BTreeSet<(Uuid, i64)>,
    /// Suspects that run, by worker.
    suspects: BTreeMap<Uuid, usize>,
    /// Probes that run, of all workers.
    probes: usize,
    /// The attempts that did not count to be the first.
    charged: Vec<String>,
    broken: Vec<String>,
}

/// How late a worker may learn of a breaker that another one opened: a look for chores, and what it
/// is at.
const LATE: Duration = Duration::from_millis(1500);

/// How a handler ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Done,
    Retry,
    Reject,
    Outage,
}

/// A server, and the record of what handlers did.
#[derive(Clone)]
pub(crate) struct Stage {
    pub(crate) server: Arc<Server>,
    runs: Arc<Mutex<Runs>>,
}

impl Stage {
    /// A server whose statements take up to so long, with jobs 1 to `jobs` ready.
    pub(crate) fn new(jobs: i64, slowest: Duration) -> Stage {
        let server = Arc::new(Server::new(slowest));
        LAST.with(|last| {
            *last.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(&server));
        });
        server.enqueue(&(1..=jobs).collect::<Vec<_>>(), false);
        Stage {
            server,
            runs: Arc::default(),
        }
    }

    /// These jobs have lost a worker before.
    pub(crate) fn suspect(&self, ids: impl IntoIterator<Item = i64>) {
        let mut tables = self.server.tables();
        for id in ids {
            let (attempt, crashes) = (0, 1);
            tables.ready.insert(
                id,
                Stored {
                    id,
                    attempt,
                    crashes,
                },
            );
        }
    }

    /// A worker to be, whose handler does as `plan` says: for how long it runs, and how it ends.
    pub(crate) fn worker(
        &self,
        plan: impl Fn(i64) -> (Duration, End) + Send + Sync + 'static,
    ) -> WorkerBuilder {
        let queue = Queue::new(&Database::of(&self.server), "q").expect("a good name");
        let stage = self.clone();
        Worker::builder(&queue)
            .slots(2)
            .lease(Duration::from_secs(3))
            .handle_any(move |job| {
                let (time, end) = plan(job.id().get());
                stage.run(job, time, end)
            })
    }

    fn runs(&self) -> MutexGuard<'_, Runs> {
        self.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self, job: &Job<Box<RawValue>>, time: Duration, end: End) -> Result<(), Failure> {
        let id = job.id().get();
        let lease: Uuid = serde_json::from_str(job.payload().get()).expect("the lease");
        let begun = self.begins(id, lease);
        if job.attempt() > 1 {
            let charged = format!("job {id} runs for the {}. time", job.attempt());
            self.runs().charged.push(charged);
        }
        thread::sleep(time);
        let mut runs = self.runs();
        if let Some(worker) = begun.suspect_of {
            runs.suspects
                .entry(worker)
                .and_modify(|suspects| *suspects -= 1);
        }
        if begun.probe.is_some() {
            runs.probes -= 1;
        }
        match end {
            End::Done => {
                runs.succeeded.insert(id);
                Ok(())
            }
            End::Retry => Err(Failure::retry("again").after(Duration::from_millis(20))),
            End::Reject => Err(Failure::reject("never")),
            End::Outage => Err(Failure::outage("down")),
        }
    }

    /// A handler is called: the lease must be its worker's at this moment.
    fn begins(&self, id: i64, lease: Uuid) -> Begun {
        let now = Instant::now();
        let mut tables = self.server.tables();
        tables.note(|| format!("job {id} begins in lease {lease}"));
        let held = tables.leases.get(&lease).map(|lease| {
            let until = tables
                .workers
                .get(&lease.worker)
                .map(|worker| worker.expires_at);
            let of_it = lease.jobs.iter().find(|job| job.id == id);
            (
                lease.worker,
                until,
                of_it.map(|job| job.crashes > 0),
                lease.done.contains(&id),
            )
        });
        let mut runs = self.runs();
        runs.begun.entry(id).or_default().push(now);
        let mut suspect_of = None;
        let probe = tables.leases.get(&lease).and_then(|lease| lease.probe);
        if probe.is_some() {
            runs.probes += 1;
            if runs.probes > 1 {
                runs.broken.push(format!("two probes at once, {id} is one"));
            }
        }
        if let Some(lease) = tables.leases.get(&lease) {
            let why = gated(&tables, lease, now);
            runs.broken.extend(why.map(|why| format!("job {id} {why}")));
        }
        match held {
            Some((worker, Some(until), Some(is_suspect), false)) if until > now => {
                if is_suspect {
                    suspect_of = Some(worker);
                    let suspects = runs.suspects.entry(worker).or_default();
                    *suspects += 1;
                    if *suspects > 1 {
                        runs.broken
                            .push(format!("two suspects at once, {id} is one"));
                    }
                }
            }
            other => runs.broken.push(format!(
                "job {id} begins at {now:?} in lease {lease}, which is not its worker's: {other:?}"
            )),
        }
        if !runs.of_leases.insert((lease, id)) {
            runs.broken
                .push(format!("job {id} begins twice in lease {lease}"));
        }
        Begun { suspect_of, probe }
    }

    /// Waits until nothing is left to be done.
    pub(crate) fn wait_until_drained(&self) {
        clock::wait(None, || {
            let tables = self.server.tables();
            (tables.ready.is_empty() && tables.delayed.is_empty() && tables.leases.is_empty())
                .then_some(())
        });
    }

    /// Stops a worker of a server that is well: it must say so in good time, and leave nothing.
    pub(crate) fn stop(&self, worker: Worker, grace: Duration) -> Stopped {
        let begin = Instant::now();
        let stopped = worker.stop(grace).expect("a server that is well");
        let took = begin.elapsed();
        self.server
            .tables()
            .note(|| format!("stopped after {took:?}: {stopped:?}"));
        assert!(
            took <= grace + Duration::from_secs(3),
            "the stop took {took:?}"
        );
        stopped
    }

    /// When a job began first.
    pub(crate) fn began(&self, id: i64) -> Option<Instant> {
        self.runs()
            .begun
            .get(&id)
            .and_then(|begun| begun.first().copied())
    }

    /// Whether all jobs from 1 to `jobs` are where they belong, and no rule was broken.
    pub(crate) fn check(&self, jobs: i64) {
        let tables = self.server.tables();
        let runs = self.runs();
        assert!(runs.broken.is_empty(), "{}", runs.broken.join("\n"));
        let there = tables.jobs();
        for id in 1..=jobs {
            let times = there.get(&id).copied().unwrap_or(0);
            assert_eq!(times, 1, "job {id} is in {times} places");
        }
        assert_eq!(
            i64::try_from(there.len()),
            Ok(jobs),
            "jobs that nobody enqueued: {there:?}"
        );
        for id in &tables.done {
            assert!(
                runs.succeeded.contains(id),
                "job {id} is done and never succeeded"
            );
        }
        for job in tables
            .ready
            .values()
            .chain(tables.delayed.values().map(|(_, job)| job))
        {
            let begun = runs.begun.get(&job.id).map_or(0, Vec::len);
            let attempts = usize::try_from(job.attempt).expect("no less than 0");
            assert!(
                attempts <= begun,
                "job {} is charged {attempts} times for {begun} runs",
                job.id
            );
        }
    }

    /// Whether no job was charged an attempt for an outage.
    pub(crate) fn check_nothing_is_charged(&self) {
        let runs = self.runs();
        assert!(runs.charged.is_empty(), "{}", runs.charged.join("\n"));
    }

    /// Whether nothing is held by anybody, and nobody is there.
    pub(crate) fn check_nothing_is_left(&self) {
        self.check_nothing_is_held();
        let tables = self.server.tables();
        assert!(
            tables.workers.is_empty(),
            "workers were left: {:?}",
            tables.workers
        );
    }

    /// Whether nothing is held by anybody. What a worker said to a server that was silent may come
    /// after its last word: then it seems to be there for one more lease time.
    pub(crate) fn check_nothing_is_held(&self) {
        let tables = self.server.tables();
        assert!(
            tables.leases.is_empty(),
            "leases were left: {:?}",
            tables.leases
        );
    }
}

/// What is to be undone when a handler ends.
struct Begun {
    /// The worker whose suspect it is.
    suspect_of: Option<Uuid>,
    /// The number of the probe that it is.
    probe: Option<i64>,
}

/// Why a job of this lease must not begin now, as far as breakers are concerned.
fn gated(tables: &Tables, lease: &Lease, now: Instant) -> Option<String> {
    let open = tables.breakers.values();
    let open = open.filter(|breaker| breaker.state != State::Closed);
    for breaker in open {
        let is_its = breaker.state == State::HalfOpen
            && breaker.prober == Some(lease.worker)
            && lease.probe == Some(breaker.probes);
        let is_late = now > breaker.opened_at + LATE;
        match lease.probe {
            Some(_) if is_its => {}
            Some(number) => {
                return Some(format!("is probe {number} without the right: {breaker:?}"));
            }
            None if is_late => return Some(format!("begins in an outage: {breaker:?}")),
            None => {}
        }
    }
    None
}
