//! A client inside the harness, for scenarios that need an operation at a certain moment.
//!
//! It has a proxy and a history as the client processes do, so mutants and the checker see it.

use std::time::Duration;

use redrive::admin::Cancelled;
use redrive::dlq::LetterFilter;
use redrive::{Database, Enqueued, JobId, NewJob, Operator, Queue, Result};

use crate::environment::Environment;
use crate::history::{ClientLog, Operation};
use crate::proxy::Proxy;
use crate::role::{MAX_ATTEMPTS, Plan, QUEUE, TransactionalWork, Work};

/// The first key of its jobs. Enqueuers start at 1 << 40.
const FIRST_KEY: i64 = 9_000_000_000;
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
        let proxy = env.open_proxy();
        let url = Environment::url_through(&proxy);
        let db = redrive::connect(&format!("{url}&application_name={name}")).expect("connect");
        Client {
            name: name.to_owned(),
            log: env.log(name),
            queue: Queue::new(&db, QUEUE).expect("a valid name"),
            next_key: FIRST_KEY,
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
        let works = [self.work(plan)];
        let op = self.log.invoke(Operation::Enqueue, &keys(&works), &[]);
        let result = NewJob::new(&works[0])
            .map(|job| job.max_attempts(MAX_ATTEMPTS).unique(key))
            .and_then(|job| self.queue.enqueue_job(job))
            .map(|enqueued| match enqueued {
                Enqueued::New(id) => vec![id.get()],
                Enqueued::Existing(id) | Enqueued::Replaced(id) => vec![-id.get()],
            });
        self.log.complete(op, &result);
        result.expect("enqueue")[0]
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
                &LetterFilter::new().queue(QUEUE).limit(limit),
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
        }
    }
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
