//! A tally: how often the handlers of this process ran each job.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use redrive::{Failure, Job, JobId};

use crate::payload::Order;

/// Attempts by job, in the order of the ids. Clones share the tally.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    runs: Arc<Mutex<Runs>>,
}

#[derive(Debug, Default)]
struct Runs {
    by_job: BTreeMap<JobId, u32>,
    order: Vec<JobId>,
}

impl Tally {
    /// An empty tally.
    pub fn new() -> Tally {
        Tally::default()
    }

    /// A handler that counts and succeeds.
    pub fn counting(&self) -> impl Fn(&Job<Order>) -> Result<(), Failure> + Send + Sync + 'static {
        let tally = self.clone();
        move |job| {
            tally.count(job.id());
            Ok(())
        }
    }

    /// Counts an attempt of the job and returns its number, from 1.
    pub fn count(&self, id: JobId) -> u32 {
        let mut runs = self.runs();
        runs.order.push(id);
        let count = runs.by_job.entry(id).or_default();
        *count += 1;
        *count
    }

    /// Returns the number of attempts of a job.
    pub fn of(&self, id: JobId) -> u32 {
        self.runs().by_job.get(&id).copied().unwrap_or(0)
    }

    /// Returns the number of different jobs.
    pub fn jobs(&self) -> usize {
        self.runs().by_job.len()
    }

    /// The jobs in the order in which they were counted.
    pub fn order(&self) -> Vec<JobId> {
        self.runs().order.clone()
    }

    /// The jobs that ran more than once.
    pub fn repeated(&self) -> Vec<JobId> {
        let runs = self.runs();
        let repeated = runs.by_job.iter().filter(|(_, runs)| **runs > 1);
        repeated.map(|(id, _)| *id).collect()
    }

    fn runs(&self) -> MutexGuard<'_, Runs> {
        self.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
