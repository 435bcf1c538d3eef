//! A client inside the harness, for scenarios that need an operation at a certain moment.
//!
//! It has a proxy and a history as the client processes do, so mutants and the checker see it.

use std::time::Duration;

use redrive::{Database, Enqueued, NewJob, Queue, Result};
use redrive_servers::Proxy;

use crate::environment::Environment;
use crate::history::Operation;
use crate::role::groups::OTHER_QUEUES;
use crate::role::operator::{Operations, letters_of};
use crate::role::{MAX_ATTEMPTS, Plan, QUEUE, TransactionalWork, WINDOW, Work};

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
    pub(crate) ops: Operations,
    queue: Queue,
    next_key: i64,
    /// Forwards the connections of `queue`.
    _proxy: Proxy,
}

/// A job with a header.
pub(crate) fn with_header(work: &Work) -> Result<NewJob> {
    NewJob::new(work).map(|job| job.header("origin", "chaos"))
}

/// A job of a group.
pub(crate) fn grouped(group: &str) -> impl Fn(&Work) -> Result<NewJob> {
    move |work| NewJob::new(work).map(|job| job.group(group))
}

/// A job of a group for the handler with a transaction.
pub(crate) fn grouped_transactional(group: &str) -> impl Fn(&Work) -> Result<NewJob> {
    move |work| transactional(work).map(|job| job.group(group))
}

pub(crate) fn transactional(work: &Work) -> Result<NewJob> {
    NewJob::new(&TransactionalWork(work.clone()))
}

/// A job that is due in an hour.
pub(crate) fn delayed(work: &Work) -> Result<NewJob> {
    NewJob::new(work).map(|job| job.delay(HOUR))
}

impl Client {
    pub(crate) fn open(env: &Environment, name: &str) -> Client {
        Client::open_queue(env, name, QUEUE)
    }

    /// Opens a client for another queue.
    pub(crate) fn open_queue(env: &Environment, name: &str, queue: &str) -> Client {
        let proxy = env.open_proxy();
        let url = format!("{}&application_name={name}", proxy.url());
        let db = redrive::connect(&url).expect("connect");
        let place = OTHER_QUEUES.iter().position(|name| *name == queue);
        let number = place.map_or(0, |place| i64::try_from(place).unwrap_or_default() + 1);
        Client {
            ops: Operations::new(&db, env.log(name), name),
            queue: Queue::new(&db, queue).expect("a valid name"),
            next_key: FIRST_KEY + number * KEYS,
            _proxy: proxy,
        }
    }

    pub(crate) fn database(&self) -> &Database {
        self.queue.database()
    }

    /// Stores a job for each of these plans. Returns their ids.
    pub(crate) fn enqueue(&mut self, plans: &[Plan]) -> Vec<i64> {
        self.enqueue_as(plans, NewJob::new::<Work>)
    }

    /// Stores a job of this form for each of these plans, in one statement.
    pub(crate) fn enqueue_as(
        &mut self,
        plans: &[Plan],
        form: impl Fn(&Work) -> Result<NewJob>,
    ) -> Vec<i64> {
        let works: Vec<Work> = plans.iter().map(|plan| self.work(*plan)).collect();
        let limited = |job: NewJob| job.max_attempts(MAX_ATTEMPTS).priority(PRIORITY);
        let store = || {
            let jobs = works.iter().map(|work| form(work).map(limited));
            let jobs: Vec<NewJob> = jobs.collect::<Result<_>>()?;
            Ok(ids_of(&self.queue.enqueue_jobs(&jobs)?))
        };
        let log = &self.ops.log;
        log.call(Operation::Enqueue, &keys(&works), &[], store)
            .expect("enqueue")
    }

    /// Stores a job in the caller's transaction, which `commit` ends.
    pub(crate) fn enqueue_in<'a>(
        &mut self,
        mut transaction: postgres::Transaction<'a>,
        commit: impl FnOnce(postgres::Transaction<'a>),
    ) {
        let work = self.work(Plan::Done);
        let store = || {
            let job = NewJob::new(&work)?.max_attempts(MAX_ATTEMPTS);
            let stored = self.queue.enqueue_jobs_in(&mut transaction, &[job])?;
            commit(transaction);
            Ok(ids_of(&stored))
        };
        let log = &self.ops.log;
        log.call(Operation::Enqueue, &[work.key], &[], store)
            .expect("enqueue");
    }

    /// Stores a job with a unique key. Returns its id, or that of the job that holds the key as a negative number.
    pub(crate) fn enqueue_unique(&mut self, key: &str, plan: Plan) -> i64 {
        self.enqueue_keyed(Operation::Enqueue, plan, |job| job.unique(key))[0]
    }

    /// Stores a job that is due in an hour, unless the window of the key is open.
    pub(crate) fn enqueue_in_window(&mut self, key: &str) -> i64 {
        self.enqueue_keyed(Operation::EnqueueInWindow, Plan::Done, |job| {
            job.delay(HOUR).unique(key).unique_window(WINDOW)
        })[0]
    }

    /// Stores a job that is due in an hour, or replaces this part of the one that holds the key.
    pub(crate) fn replace(&mut self, key: &str, replace: redrive::Replace) -> i64 {
        self.enqueue_keyed(Operation::Replace, Plan::Done, |job| {
            job.delay(HOUR).unique(key).replace(replace)
        })[0]
    }

    pub(crate) fn enqueue_keyed(
        &mut self,
        operation: Operation,
        plan: Plan,
        keyed: impl FnOnce(NewJob) -> NewJob,
    ) -> Vec<i64> {
        let work = self.work(plan);
        let store = || {
            let job = NewJob::new(&work)?.max_attempts(MAX_ATTEMPTS);
            Ok(answer_of(self.queue.enqueue_job(keyed(job))?))
        };
        let log = &self.ops.log;
        log.call(operation, &[work.key], &[], store)
            .expect("enqueue")
    }

    /// Redrives the oldest letters of its queue.
    pub(crate) fn redrive(&self, limit: u64) {
        self.ops
            .redrive(&letters_of(self.queue.name()).limit(limit));
    }

    fn work(&mut self, plan: Plan) -> Work {
        self.next_key += 1;
        // Three retries take four claims: with two workers, one of them claims the job twice.
        let times = if plan == Plan::Retry { 3 } else { 1 };
        Work {
            plan,
            times,
            steps: u32::from(plan == Plan::Retry),
            ..Work::instant(self.next_key)
        }
    }
}

/// Returns the answer to an enqueue with a key, as the history has it: the id of a new job, that of an existing one as
/// a negative number, and that of a replaced one both ways.
pub(crate) fn answer_of(enqueued: Enqueued) -> Vec<i64> {
    match enqueued {
        Enqueued::New(id) => vec![id.get()],
        Enqueued::Existing(id) => vec![-id.get()],
        Enqueued::Replaced(id) => vec![-id.get(), id.get()],
    }
}

pub(crate) fn keys(works: &[Work]) -> Vec<i64> {
    works.iter().map(|work| work.key).collect()
}

fn ids_of(jobs: &[Enqueued]) -> Vec<i64> {
    jobs.iter().map(|job| job.id().get()).collect()
}
