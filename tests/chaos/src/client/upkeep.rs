//! The operations of scenarios about waiting jobs, breakers and the keeping of letters.

use std::time::Duration;

use redrive::dlq::{LetterFilter, Policy};
use redrive::{JobId, NewJob, Result};

use super::{Client, numbers};
use crate::history::Operation;
use crate::role::batch::BatchWork;
use crate::role::gateway::DependentWork;
use crate::role::standing::{BATCH, GENERATIONS, INTERVAL};
use crate::role::unhandled::UnhandledWork;
use crate::role::{Plan, QUEUE, Work};
use crate::role::{keeping, operator};

/// How long a job may wait that expires.
const SHORT: Duration = Duration::from_millis(100);

impl Client {
    /// Stores a job for the handler of batches for each of these plans. Returns their ids.
    pub(crate) fn enqueue_batch(&mut self, plans: &[Plan]) -> Vec<i64> {
        let works: Vec<Work> = plans.iter().map(|plan| self.work(*plan)).collect();
        let jobs = works
            .iter()
            .map(|work| NewJob::new(&BatchWork(work.clone())));
        self.store(&works, jobs.collect())
    }

    /// Stores jobs that call the gateway. Returns their ids.
    pub(crate) fn enqueue_dependent(&mut self, count: usize) -> Vec<i64> {
        let works: Vec<Work> = (0..count).map(|_| self.work(Plan::Done)).collect();
        let jobs = works.iter();
        let jobs = jobs.map(|work| NewJob::new(&DependentWork(work.clone())));
        self.store(&works, jobs.collect())
    }

    /// Stores jobs with a secret and a header, which are rejected.
    pub(crate) fn enqueue_secret(&mut self, count: usize) -> Vec<i64> {
        let works: Vec<Work> = (0..count)
            .map(|_| {
                let work = self.work(Plan::Reject);
                Work {
                    secret: Some(keeping::secret_of(work.key)),
                    ..work
                }
            })
            .collect();
        let jobs = works
            .iter()
            .map(|work| NewJob::new(work).map(|job| job.header("origin", "chaos")));
        self.store(&works, jobs.collect())
    }

    /// Stores a job that soon expires, one without a worker, and a plain one. Returns their ids.
    pub(crate) fn enqueue_waiting(&mut self) -> Vec<i64> {
        let works = [Plan::Done; 3].map(|plan| self.work(plan));
        let jobs = vec![
            NewJob::new(&works[0]).map(|job| job.expires_in(SHORT)),
            NewJob::new(&UnhandledWork(works[1].clone())),
            NewJob::new(&works[2]),
        ];
        self.store(&works, jobs)
    }

    pub(crate) fn discard(&self, id: i64) {
        self.ask(Operation::Discard, || {
            let one = LetterFilter::new().ids([JobId::new(id)]);
            let discarded = self.database().dlq().discard(&one, &self.operator());
            discarded.map(|ids| numbers(&ids))
        });
    }

    /// Erases a job that waits.
    pub(crate) fn erase(&self, id: i64) {
        self.ask(Operation::Erase, || {
            let one = LetterFilter::new().ids([JobId::new(id)]);
            let erased = self.database().dlq().erase(&one, &self.operator());
            erased.map(|_| Vec::new())
        });
    }

    /// Sets the retention rules and applies them once.
    pub(crate) fn apply_retention(&self) {
        self.ask(Operation::Retention, || {
            let operator = self.operator();
            keeping::set_retention(self.database(), &operator)?;
            self.database().dlq().retention().apply(&operator)?;
            Ok(Vec::new())
        });
    }

    /// Redrives the letters of the main queue that pass the validation of operators.
    pub(crate) fn redrive_valid(&self) {
        let all = LetterFilter::new().queue(QUEUE);
        operator::redrive_valid(self.database(), &self.log, &all, &self.operator());
    }

    /// Restores all archived letters.
    pub(crate) fn restore(&self) {
        self.ask(Operation::Restore, || {
            let all = LetterFilter::new().queue(QUEUE);
            let restored = self.database().dlq().restore(&all, &self.operator());
            restored.map(|restored| numbers(&restored.letters))
        });
    }

    /// Sets the policy of the rounds.
    pub(crate) fn set_policy(&self) {
        let policy = Policy::new("chaos-policy", LetterFilter::new().queue(QUEUE))
            .every(INTERVAL)
            .batch(BATCH)
            .generations(GENERATIONS);
        let policies = self.database().dlq().policies();
        let set = policies.set(&policy, &self.operator());
        set.expect("set a policy");
    }

    /// Writes an operation and its result to the history.
    fn ask(&self, operation: Operation, work: impl FnOnce() -> Result<Vec<i64>>) {
        let op = self.log.invoke(operation, &[], &[]);
        self.log.complete(op, &work());
    }
}
