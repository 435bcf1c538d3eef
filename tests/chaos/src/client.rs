//! A client inside the harness, for scenarios that need an operation at a certain moment.
//!
//! It has a proxy and a history as the client processes do, so mutants and the checker see it.

mod live;
mod upkeep;

use std::time::Duration;

use redrive::admin::Cancelled;
use redrive::dlq::LetterFilter;
use redrive::{Database, Enqueued, JobId, NewJob, Operator, PauseEnd, Queue, Replace, Result};

use crate::environment::Environment;
use crate::history::{ClientLog, Operation};
use crate::proxy::Proxy;
use crate::role::groups::OTHER_QUEUES;
use crate::role::{MAX_ATTEMPTS, Plan, QUEUE, TransactionalWork, WINDOW, Work, operator, standing};

/// The first key of its jobs. Enqueuers start at 1 << 40.
const FIRST_KEY: i64 = 9_000_000_000;
/// More keys than the clients of a queue use.
const KEYS: i64 = 1_000_000;
/// The priority of its jobs, so that a move can lose it.
const PRIORITY: i16 = 2;
/// A delay that no run lives to see.
const HOUR: Duration = Duration::from_hours(1);

/// A client that does what a scenario says.
pub(crate) struct Client {
    name: String,
    log: ClientLog,
    queue: Queue,
    next_key: i64,
    /// Forwards the connections of `queue`.
    _proxy: Proxy,
}

impl Client {
    pub(crate) fn open(env: &Environment, name: &str) -> Client {
        Client::open_queue(env, name, QUEUE)
    }

    /// Opens a client for another queue.
    pub(crate) fn open_queue(env: &Environment, name: &str, queue: &str) -> Client {
        let proxy = env.open_proxy();
        let url = Environment::url_through(&proxy);
        let db = redrive::connect(&format!("{url}&application_name={name}")).expect("connect");
        Client {
            name: name.to_owned(),
            log: env.log(name),
            queue: Queue::new(&db, queue).expect("a valid name"),
            next_key: first_key(queue),
            _proxy: proxy,
        }
    }

    pub(crate) fn database(&self) -> &Database {
        self.queue.database()
    }

    /// Stores a job for each of these plans, in one statement. Returns their ids.
    pub(crate) fn enqueue(&mut self, plans: &[Plan]) -> Vec<i64> {
        let works: Vec<Work> = plans.iter().map(|plan| self.work(*plan)).collect();
        let jobs = works.iter().map(NewJob::new).collect();
        self.store(&works, jobs)
    }

    /// Stores a job for each of these plans, with a header. Returns their ids.
    pub(crate) fn enqueue_with_header(&mut self, plans: &[Plan]) -> Vec<i64> {
        let works: Vec<Work> = plans.iter().map(|plan| self.work(*plan)).collect();
        let jobs = works
            .iter()
            .map(|work| NewJob::new(work).map(|job| job.header("origin", "chaos")))
            .collect();
        self.store(&works, jobs)
    }

    /// Stores a job of a group for each of these plans, which takes this many milliseconds. Returns their ids.
    pub(crate) fn enqueue_grouped(&mut self, group: &str, plans: &[Plan], ms: u64) -> Vec<i64> {
        let mut works: Vec<Work> = plans.iter().map(|plan| self.work(*plan)).collect();
        for work in &mut works {
            work.ms = ms;
        }
        let jobs = works
            .iter()
            .map(|work| NewJob::new(work).map(|job| job.group(group)))
            .collect();
        self.store(&works, jobs)
    }

    /// Stores jobs of a group for the handler with a transaction.
    pub(crate) fn enqueue_grouped_transactional(
        &mut self,
        group: &str,
        plans: &[Plan],
    ) -> Vec<i64> {
        let works: Vec<Work> = plans.iter().map(|plan| self.work(*plan)).collect();
        let jobs = works
            .iter()
            .map(|work| NewJob::new(&TransactionalWork(work.clone())).map(|job| job.group(group)))
            .collect();
        self.store(&works, jobs)
    }

    /// Releases a group that a letter holds.
    pub(crate) fn release(&self, group: &str) {
        operator::release(&self.log, &self.queue, group, &self.operator());
    }

    /// Pauses the queue until it is resumed.
    pub(crate) fn pause(&self) {
        let op = self.log.invoke(Operation::Pause, &[], &[]);
        let paused = self
            .queue
            .pause(PauseEnd::Resumed, &self.operator())
            .map(|()| vec![1]);
        self.log.complete(op, &paused);
    }

    pub(crate) fn resume(&self) {
        let op = self.log.invoke(Operation::Resume, &[], &[]);
        let resumed = self.queue.resume(&self.operator());
        self.log
            .complete(op, &resumed.map(|was_paused| vec![i64::from(was_paused)]));
    }

    pub(crate) fn set_schedules(&self) {
        standing::set_schedules(self.database(), &self.operator()).expect("set the schedules");
    }

    pub(crate) fn trigger(&self, schedule: &str) {
        operator::trigger(self.database(), &self.log, &self.operator(), schedule);
    }

    pub(crate) fn pause_schedule(&self, schedule: &str) {
        operator::pause(self.database(), &self.log, &self.operator(), schedule);
    }

    pub(crate) fn resume_schedule(&self, schedule: &str) {
        operator::resume(self.database(), &self.log, &self.operator(), schedule);
    }

    /// Stores jobs for the handler with a transaction.
    pub(crate) fn enqueue_transactional(&mut self, plans: &[Plan]) -> Vec<i64> {
        let works: Vec<Work> = plans.iter().map(|plan| self.work(*plan)).collect();
        let jobs = works
            .iter()
            .map(|work| NewJob::new(&TransactionalWork(work.clone())))
            .collect();
        self.store(&works, jobs)
    }

    /// Stores a job that is due in an hour.
    pub(crate) fn enqueue_delayed(&mut self) -> i64 {
        let works = [self.work(Plan::Done)];
        let job = NewJob::new(&works[0]).map(|job| job.delay(HOUR));
        self.store(&works, vec![job])[0]
    }

    fn store(&mut self, works: &[Work], jobs: Vec<Result<NewJob>>) -> Vec<i64> {
        let op = self.log.invoke(Operation::Enqueue, &keys(works), &[]);
        let limited = jobs
            .into_iter()
            .map(|job| job.map(|job| job.max_attempts(MAX_ATTEMPTS).priority(PRIORITY)));
        let result = limited
            .collect::<Result<Vec<_>>>()
            .and_then(|jobs| self.queue.enqueue_jobs(&jobs))
            .map(|jobs| ids_of(&jobs));
        self.log.complete(op, &result);
        result.expect("enqueue")
    }

    /// Stores a job in the caller's transaction, which `commit` ends.
    pub(crate) fn enqueue_in<'a>(
        &mut self,
        mut transaction: postgres::Transaction<'a>,
        commit: impl FnOnce(postgres::Transaction<'a>),
    ) {
        let works = [self.work(Plan::Done)];
        let op = self.log.invoke(Operation::Enqueue, &keys(&works), &[]);
        let job = NewJob::new(&works[0]).map(|job| job.max_attempts(MAX_ATTEMPTS));
        let stored = self
            .queue
            .enqueue_jobs_in(&mut transaction, &[job.expect("a valid job")])
            .map(|jobs| ids_of(&jobs));
        commit(transaction);
        self.log.complete(op, &stored);
    }

    /// Stores a job with a unique key, unless another job holds the key.
    pub(crate) fn enqueue_unique(&mut self, key: &str, plan: Plan) -> i64 {
        self.enqueue_keyed(Operation::Enqueue, plan, |job| job.unique(key))[0]
    }

    /// Stores a job whose key is free once it starts, unless another job holds the key.
    pub(crate) fn enqueue_until_started(&mut self, key: &str, plan: Plan) -> i64 {
        let keyed = self.enqueue_keyed(Operation::Enqueue, plan, |job| {
            job.unique(key).until_started()
        });
        keyed[0]
    }

    /// Stores a job that is due in an hour, or replaces this part of the one that holds the key.
    pub(crate) fn replace(&mut self, key: &str, replace: Replace) -> Vec<i64> {
        self.enqueue_keyed(Operation::Replace, Plan::Done, |job| {
            job.delay(HOUR).unique(key).replace(replace)
        })
    }

    /// Stores a job, unless the window of the key is open.
    pub(crate) fn enqueue_in_window(&mut self, key: &str) -> i64 {
        let keyed = self.enqueue_keyed(Operation::EnqueueInWindow, Plan::Done, |job| {
            job.delay(HOUR).unique(key).unique_window(WINDOW)
        });
        keyed[0]
    }

    fn enqueue_keyed(
        &mut self,
        operation: Operation,
        plan: Plan,
        keyed: impl FnOnce(NewJob) -> NewJob,
    ) -> Vec<i64> {
        let works = [self.work(plan)];
        let op = self.log.invoke(operation, &keys(&works), &[]);
        let result = NewJob::new(&works[0])
            .and_then(|job| {
                self.queue
                    .enqueue_job(keyed(job.max_attempts(MAX_ATTEMPTS)))
            })
            .map(|enqueued| match enqueued {
                Enqueued::New(id) => vec![id.get()],
                Enqueued::Existing(id) => vec![-id.get()],
                Enqueued::Replaced(id) => vec![-id.get(), id.get()],
            });
        self.log.complete(op, &result);
        result.expect("enqueue")
    }

    fn operator(&self) -> Operator {
        Operator::new(&self.name).reason("chaos")
    }

    /// Redrives the oldest letters.
    pub(crate) fn redrive(&self, limit: u64) {
        let op = self.log.invoke(Operation::Redrive, &[], &[]);
        let redriven = self
            .database()
            .dlq()
            .redrive(
                &LetterFilter::new().queue(self.queue.name()).limit(limit),
                &self.operator(),
            )
            .map(|done| numbers(&done.redriven));
        self.log.complete(op, &redriven);
    }

    pub(crate) fn cancel(&self, id: i64) {
        let op = self.log.invoke(Operation::Cancel, &[], &[id]);
        let cancelled = self
            .database()
            .admin()
            .cancel(JobId::new(id))
            .map(|cancelled| match cancelled {
                Cancelled::Dead => vec![id],
                // The job runs.
                Cancelled::Asked => vec![-id],
                _ => Vec::new(),
            });
        self.log.complete(op, &cancelled);
    }

    pub(crate) fn prune(&self, older_than: Duration) {
        let op = self.log.invoke(Operation::Prune, &[], &[]);
        let pruned = self.database().dlq().prune(older_than, &self.operator());
        self.log.complete(op, &pruned.map(|_| Vec::new()));
    }

    fn work(&mut self, plan: Plan) -> Work {
        self.next_key += 1;
        // Three retries take four claims: with two workers, one of them claims the job twice.
        let times = match plan {
            Plan::Retry => 3,
            _ => 1,
        };
        Work {
            key: self.next_key,
            plan,
            ms: 0,
            times,
            steps: u32::from(plan == Plan::Retry),
            follow_ups: 0,
            secret: None,
        }
    }
}

/// Returns the first key of the clients of a queue.
fn first_key(queue: &str) -> i64 {
    let place = OTHER_QUEUES.iter().position(|name| *name == queue);
    let number = place.map_or(0, |place| i64::try_from(place).unwrap_or_default() + 1);
    FIRST_KEY + number * KEYS
}

fn keys(works: &[Work]) -> Vec<i64> {
    works.iter().map(|work| work.key).collect()
}

fn ids_of(jobs: &[Enqueued]) -> Vec<i64> {
    jobs.iter().map(|job| job.id().get()).collect()
}

fn numbers(ids: &[JobId]) -> Vec<i64> {
    ids.iter().map(|id| id.get()).collect()
}
