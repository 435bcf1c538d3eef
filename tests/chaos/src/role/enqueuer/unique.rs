//! Jobs with unique keys that are often held, in every mode.

use std::time::Duration;

use redrive::{Enqueued, NewJob, Replace};

use super::{Enqueuer, HOT_KEYS, answer, keys};
use crate::history::Operation;
use crate::role::{MAX_ATTEMPTS, Plan, WINDOW, Work};

/// Keys that are free once their job starts, and keys with a window.
const MODE_KEYS: u32 = 12;
/// Keys whose job is replaced: few, so that it often still waits.
const REPLACED_KEYS: u32 = 3;
/// The longest delay of such a job, in milliseconds.
const LONGEST_DELAY: u64 = 3000;

impl Enqueuer<'_> {
    /// Stores a job with a unique key. Returns how many it tried to store.
    pub(super) fn unique(&mut self) -> u64 {
        match self.random.u32(0..8) {
            0..=2 => self.until_done(),
            3..=4 => self.until_started(),
            5..=6 => self.replacing(),
            _ => self.in_window(),
        }
        1
    }

    fn until_done(&mut self) {
        let work = self.work();
        let key = format!("u{}", self.random.u32(0..HOT_KEYS));
        let job = self.job(&work).map(|job| job.unique(key));
        self.store_unique(Operation::Enqueue, &work, job);
    }

    fn until_started(&mut self) {
        let work = self.work();
        let key = format!("s{}", self.random.u32(0..MODE_KEYS));
        let job = self.job(&work).map(|job| job.unique(key).until_started());
        self.store_unique(Operation::Enqueue, &work, job);
    }

    fn in_window(&mut self) {
        let work = self.work();
        let key = format!("w{}", self.random.u32(0..MODE_KEYS));
        let job = self
            .job(&work)
            .map(|job| job.unique(key).unique_window(WINDOW));
        self.store_unique(Operation::EnqueueInWindow, &work, job);
    }

    /// Replaces the job of the key if it waits. All jobs of these keys succeed, whichever payload they have.
    fn replacing(&mut self) {
        let work = Work {
            plan: Plan::Done,
            steps: 0,
            follow_ups: 0,
            ..self.work()
        };
        let replace = match self.random.u32(0..3) {
            0 => Replace::Payload,
            1 => Replace::Time,
            _ => Replace::Both,
        };
        let key = format!("r{}", self.random.u32(0..REPLACED_KEYS));
        let delay = Duration::from_millis(self.random.u64(0..LONGEST_DELAY));
        let job = NewJob::new(&work).map(|job| {
            job.max_attempts(MAX_ATTEMPTS)
                .delay(delay)
                .unique(key)
                .replace(replace)
        });
        self.store_unique(Operation::Replace, &work, job);
    }

    fn store_unique(&mut self, operation: Operation, work: &Work, job: redrive::Result<NewJob>) {
        let op = self
            .log
            .invoke(operation, &keys(std::slice::from_ref(work)), &[]);
        let stored = job.and_then(|job| self.queue.enqueue_job(job));
        let result = stored.map(|enqueued| match enqueued {
            // The history has the id of a replaced job twice.
            Enqueued::Replaced(id) => vec![-id.get(), id.get()],
            other => vec![answer(other)],
        });
        self.log.complete(op, &result);
    }
}
