//! Jobs with unique keys that are often held, in every mode.

use std::time::Duration;

use redrive::{NewJob, Replace};

use super::{Enqueuer, HOT_KEYS};
use crate::client::answer_of;
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
            0..=2 => self.keyed(Operation::Enqueue, ('u', HOT_KEYS), |job| job),
            3..=4 => self.keyed(Operation::Enqueue, ('s', MODE_KEYS), NewJob::until_started),
            5..=6 => self.replacing(),
            _ => self.keyed(Operation::EnqueueInWindow, ('w', MODE_KEYS), |job| {
                job.unique_window(WINDOW)
            }),
        }
        1
    }

    /// Stores a job of this form with one of some keys.
    fn keyed(
        &mut self,
        operation: Operation,
        (letter, keys): (char, u32),
        form: impl FnOnce(NewJob) -> NewJob,
    ) {
        let work = self.work();
        let key = format!("{letter}{}", self.random.u32(0..keys));
        let job = self.job(&work).map(|job| form(job.unique(key)));
        self.store_unique(operation, &work, job);
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
        // The history has its result.
        _ = self.log.call(operation, &[work.key], &[], || {
            Ok(answer_of(self.queue.enqueue_job(job?)?))
        });
    }
}
