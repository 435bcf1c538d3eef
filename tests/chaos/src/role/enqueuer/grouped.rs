//! Jobs of groups: a few groups have many jobs, and many have few.

use std::time::Duration;

use redrive::{NewJob, Queue, Result};

use super::{Enqueuer, IN_GROUPS};
use crate::role::groups::{OTHER_QUEUES, PACED, RATED};
use crate::role::{MAX_ATTEMPTS, Plan, TransactionalWork, Work};

/// The groups of each queue that have many jobs, at a low rate.
const HOT_GROUPS: u32 = 4;
/// One more such group for this many jobs per second, so that each has the same load at any rate.
const JOBS_PER_HOT_GROUP: u32 = 20;
/// The groups of each queue that have few jobs.
const COLD_GROUPS: u32 = 300;
/// The same for the queue whose groups have rate limits: each has a few jobs.
const PACED_COLD_GROUPS: u32 = 20;

impl Enqueuer<'_> {
    /// Stores some jobs in one of the other queues. Returns how many it tried to store.
    pub(super) fn grouped(&mut self) -> u64 {
        let name = OTHER_QUEUES[self.random.usize(0..OTHER_QUEUES.len())];
        self.queue = Queue::new(self.queue.database(), name).expect("a valid name");
        let jobs = self.random.usize(1..9);
        match self.random.u32(0..4) {
            0 => self.in_transaction(jobs),
            _ => self.plain(jobs),
        }
    }

    /// Returns a job of a group.
    pub(super) fn grouped_job(&mut self, work: &Work) -> Result<NewJob> {
        let job = match self.random.u32(0..6) {
            0 => NewJob::new(&TransactionalWork(work.clone()))?,
            _ => NewJob::new(work)?,
        };
        let hot = HOT_GROUPS + self.options.spec.rate / JOBS_PER_HOT_GROUP;
        let group = match self.random.u32(0..2) {
            0 => format!("hot-{}", self.random.u32(0..hot)),
            _ => format!("cold-{}", self.random.u32(0..COLD_GROUPS)),
        };
        let job = match self.queue.name() {
            RATED => job,
            PACED => match self.paced_group() {
                Some(group) => job.group(group),
                None => job,
            },
            _ => job.group(group),
        };
        let job = job.max_attempts(MAX_ATTEMPTS);
        Ok(match self.random.u32(0..12) {
            0 => job.delay(Duration::from_millis(self.random.u64(1..1500))),
            _ => job,
        })
    }

    /// Returns the group of a job whose group has a rate limit: a busy one, one of a few others, or none.
    fn paced_group(&mut self) -> Option<String> {
        match self.random.u32(0..20) {
            0..=9 => Some("hot".to_owned()),
            10..=18 => Some(format!("cold-{}", self.random.u32(0..PACED_COLD_GROUPS))),
            _ => None,
        }
    }

    /// Returns how a job of a group ends, and for how many milliseconds it runs. The group waits meanwhile, so
    /// few jobs run for longer than a lease.
    pub(super) fn grouped_plan(&mut self) -> (Plan, u64) {
        let plan = self.plan(IN_GROUPS);
        let ms = match self.random.u32(0..200) {
            0..=159 => 0,
            160..=183 => self.random.u64(0..10),
            184..=195 => self.random.u64(10..300),
            196..=198 => self.random.u64(300..1500),
            _ => self.random.u64(3000..6000),
        };
        (plan, ms)
    }
}
