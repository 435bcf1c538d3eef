//! The environment of a scenario: a server, workers and their handlers, and the rules that must
//! hold in every schedule.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::value::RawValue;
use uuid::Uuid;

use crate::database::Database;
use crate::job::failure::Failure;
use crate::job::job::Job;
use crate::pipeline::queue::Queue;
use crate::scenario;
use crate::server::{QUEUE, Server, Stored};
use crate::sync::{Instant, clock, thread};
use crate::worker::{StopReport, Worker, WorkerBuilder};

/// The crashes of a job that the next crash makes a letter: one less than `MAX_CRASHES`.
pub(crate) const LAST_CHANCE: i16 = 2;

/// The slots of each worker.
pub(crate) const SLOTS: usize = 2;

/// The attempts of all handlers.
#[derive(Debug, Default)]
struct Attempts {
    begun: BTreeMap<i64, Vec<Instant>>,
    succeeded: BTreeSet<i64>,
    /// The attempts of each lease. A job may run once in a lease.
    in_leases: BTreeSet<(Uuid, i64)>,
    /// The crashes of the suspects that each worker runs.
    suspects: BTreeMap<Uuid, Vec<i16>>,
    /// The number of running handlers, and the largest so far.
    running: usize,
    most_running: usize,
    broken: Vec<String>,
}

/// How a handler ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Done,
    Retry,
    Reject,
}

/// A server, and the attempts of all handlers.
#[derive(Clone)]
pub(crate) struct Environment {
    pub(crate) server: Arc<Server>,
    attempts: Arc<Mutex<Attempts>>,
}

impl Environment {
    /// Creates a server with the ready jobs 1 to `jobs`. A statement takes at most `max_duration`.
    pub(crate) fn new(jobs: i64, max_duration: Duration) -> Environment {
        let server = Arc::new(Server::new(max_duration));
        scenario::record(&server);
        server.enqueue(&(1..=jobs).collect::<Vec<_>>(), false);
        Environment {
            server,
            attempts: Arc::default(),
        }
    }

    /// Makes these jobs suspects: they have lost this many workers before.
    pub(crate) fn make_suspects(&self, ids: impl IntoIterator<Item = i64>, crashes: i16) {
        let mut tables = self.server.tables();
        for id in ids {
            let suspect = Stored {
                id,
                attempt: 0,
                crashes,
            };
            tables.ready.insert(id, suspect);
        }
    }

    /// Returns the builder of a worker. `plan` says how long its handler runs and how it ends.
    pub(crate) fn worker(
        &self,
        plan: impl Fn(i64) -> (Duration, End) + Send + Sync + 'static,
    ) -> WorkerBuilder {
        let queue = Queue::new(&Database::of(&self.server), QUEUE).expect("a valid name");
        let env = self.clone();
        Worker::builder(&queue)
            .slots(SLOTS)
            .lease(Duration::from_secs(3))
            .handle_any(move |job| {
                let (time, end) = plan(job.id().get());
                env.handle(job, time, end)
            })
    }

    fn attempts(&self) -> MutexGuard<'_, Attempts> {
        self.attempts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn handle(&self, job: &Job<Box<RawValue>>, time: Duration, end: End) -> Result<(), Failure> {
        let id = job.id().get();
        let lease: Uuid = serde_json::from_str(job.payload().get()).expect("the lease");
        let suspect_of = self.begin(id, lease);
        thread::sleep(time);
        let mut attempts = self.attempts();
        attempts.running -= 1;
        if let Some((worker, crashes)) = suspect_of {
            let suspects = attempts.suspects.entry(worker).or_default();
            let at = suspects.iter().position(|other| *other == crashes);
            suspects.swap_remove(at.expect("it began"));
        }
        match end {
            End::Done => {
                attempts.succeeded.insert(id);
                Ok(())
            }
            End::Retry => Err(Failure::retry("again").after(Duration::from_millis(20))),
            End::Reject => Err(Failure::reject("never")),
        }
    }

    /// Records that a handler begins, and checks that its worker holds the lease. Returns the worker and the crashes
    /// of a suspect.
    fn begin(&self, id: i64, lease: Uuid) -> Option<(Uuid, i16)> {
        let now = Instant::now();
        let mut tables = self.server.tables();
        tables.note(|| format!("job {id} begins in lease {lease}"));
        let held = tables.leases.get(&lease).map(|lease| {
            let worker = tables.workers.get(&lease.worker);
            let until = worker.map(|worker| worker.expires_at);
            let its_job = lease.jobs.iter().find(|job| job.id == id);
            let crashes = its_job.map(|job| job.crashes);
            (lease.worker, until, crashes, lease.done.contains(&id))
        });
        let mut attempts = self.attempts();
        attempts.begun.entry(id).or_default().push(now);
        attempts.running += 1;
        attempts.most_running = attempts.most_running.max(attempts.running);
        let mut suspect_of = None;
        match held {
            Some((worker, Some(until), Some(crashes), false)) if until > now => {
                if crashes > 0 {
                    suspect_of = Some((worker, crashes));
                    let suspects = attempts.suspects.entry(worker).or_default();
                    suspects.push(crashes);
                    let has_last_chance = suspects.contains(&LAST_CHANCE);
                    if suspects.len() > 1 && has_last_chance {
                        attempts.broken.push(format!(
                            "a suspect runs beside one on its last chance, one is job {id}"
                        ));
                    }
                }
            }
            other => attempts.broken.push(format!(
                "job {id} begins at {now:?} in lease {lease}, which its worker does not hold: {other:?}"
            )),
        }
        if !attempts.in_leases.insert((lease, id)) {
            let twice = format!("job {id} begins twice in lease {lease}");
            attempts.broken.push(twice);
        }
        suspect_of
    }

    /// Waits until no job is live.
    pub(crate) fn wait_until_drained(&self) {
        clock::wait(None, || {
            let tables = self.server.tables();
            (tables.ready.is_empty() && tables.delayed.is_empty() && tables.leases.is_empty())
                .then_some(())
        });
    }

    /// Stops a worker of a healthy server. The stop must end within the grace and three seconds.
    pub(crate) fn stop(&self, worker: Worker, grace: Duration) -> StopReport {
        let begin = Instant::now();
        let stopped = worker.stop(grace).expect("the server is healthy");
        let took = begin.elapsed();
        let mut tables = self.server.tables();
        tables.note(|| format!("stopped after {took:?}: {stopped:?}"));
        let limit = grace + Duration::from_secs(3);
        assert!(took <= limit, "the stop took {took:?}");
        stopped
    }

    /// Returns how many handlers run.
    pub(crate) fn running(&self) -> usize {
        self.attempts().running
    }

    /// Returns how many handlers ran at once at most.
    pub(crate) fn most_running(&self) -> usize {
        self.attempts().most_running
    }

    /// Returns when the first attempt at a job began.
    pub(crate) fn began(&self, id: i64) -> Option<Instant> {
        let attempts = self.attempts();
        attempts.begun.get(&id)?.first().copied()
    }

    /// Stops a worker, and checks everything.
    pub(crate) fn end(&self, worker: Worker, grace: Duration) -> StopReport {
        let stopped = self.stop(worker, grace);
        self.check();
        self.check_no_leases();
        let tables = self.server.tables();
        let workers = &tables.workers;
        assert!(workers.is_empty(), "workers are left: {workers:?}");
        stopped
    }

    /// Checks that each job is in one place, and that no rule was broken.
    pub(crate) fn check(&self) {
        let tables = self.server.tables();
        let attempts = self.attempts();
        assert!(attempts.broken.is_empty(), "{}", attempts.broken.join("\n"));
        let once = tables.enqueued.iter().map(|id| (*id, 1)).collect();
        assert_eq!(tables.job_places(), once, "the places of each job");
        let of_none: Vec<_> = tables.done.difference(&attempts.succeeded).collect();
        assert!(of_none.is_empty(), "done without a success: {of_none:?}");
        let delayed = tables.delayed.values().map(|(_, job)| job);
        for job in tables.ready.values().chain(delayed) {
            let begun = attempts.begun.get(&job.id).map_or(0, Vec::len);
            let charged = usize::try_from(job.attempt).expect("not negative");
            assert!(charged <= begun, "{begun} attempts began: {job:?}");
        }
    }

    /// Checks that no lease is left. After a silence a late renewal may recreate a worker's row,
    /// which then stays for one lease.
    pub(crate) fn check_no_leases(&self) {
        let tables = self.server.tables();
        let leases = &tables.leases;
        assert!(leases.is_empty(), "leases are left: {leases:?}");
    }
}
