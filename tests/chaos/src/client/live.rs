//! The operations of a scenario about bulk changes of waiting jobs.

use redrive::NewJob;

use super::{Client, HOUR};
use crate::history::{JobSelection, LiveChange};
use crate::role::{Plan, Work, operator};

/// More jobs than a scenario has.
const ALL: u64 = 1000;

impl Client {
    /// Stores jobs of a group that are due in an hour. Returns their ids.
    pub(crate) fn enqueue_delayed_in(&mut self, group: &str, jobs: usize) -> Vec<i64> {
        let works: Vec<Work> = (0..jobs).map(|_| self.work(Plan::Done)).collect();
        let delayed = works
            .iter()
            .map(|work| NewJob::new(work).map(|job| job.delay(HOUR).group(group)));
        self.store(&works, delayed.collect())
    }

    /// Changes all waiting jobs of the queue.
    pub(crate) fn change_jobs(&self, change: LiveChange) {
        let selection = JobSelection {
            change,
            queue: self.queue.name().to_owned(),
            kind: None,
            least_priority: None,
            limit: ALL,
        };
        operator::change_jobs(self.database(), &self.log, &self.operator(), &selection);
    }
}
