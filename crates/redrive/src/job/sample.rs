//! Samples: jobs outside of any queue, for tests that call a handler directly.

use std::ops::Deref;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use crate::job::headers::Headers;
use crate::job::job::{Job, JobId, JobMeta};
use crate::job::setters::setters;
use crate::sync::Instant;

/// A job outside of any queue, for tests that call a handler directly; see [`Job::sample`].
///
/// It is a [`Job`] wherever a reference to one is wanted.
#[derive(Debug)]
#[must_use]
pub struct Sample<P> {
    job: Job<P>,
}

impl<P> Job<P> {
    /// Returns a job outside of any queue, for tests that call a handler directly.
    ///
    /// It is on the first of five attempts and never cancelled, unless the test says otherwise:
    ///
    /// ```
    /// use redrive::{Failure, Job};
    ///
    /// fn greet(job: &Job<String>) -> Result<(), Failure> {
    ///     job.check_cancelled()?;
    ///     assert_eq!((job.attempt(), job.group()), (3, Some("customer 7")));
    ///     assert_eq!(job.headers()["trace"], "t1");
    ///     Ok(())
    /// }
    ///
    /// let job = Job::sample("Ada".to_owned()).attempt(3).group("customer 7").header("trace", "t1");
    /// assert!(greet(&job).is_ok());
    /// assert!(greet(&job.cancelled()).is_err());
    /// ```
    pub fn sample(payload: P) -> Sample<P> {
        Sample {
            job: Job {
                meta: Arc::new(JobMeta::of_a_sample()),
                payload,
                signal: Arc::default(),
            },
        }
    }
}

impl JobMeta {
    pub(crate) fn of_a_sample() -> JobMeta {
        JobMeta {
            id: JobId::new(0),
            queue: "sample".into(),
            kind: "sample".into(),
            attempt: 1,
            max_attempts: 5,
            generation: 0,
            priority: 0,
            enqueued_at: SystemTime::now(),
            is_unique: false,
            group: None,
            headers: Headers::default(),
            outage_age: None,
            age: Duration::ZERO,
            wait: Duration::ZERO,
            claimed: Instant::now(),
        }
    }
}

impl<P> Sample<P> {
    setters! {
        /// Sets the number of this attempt, from 1.
        pub fn attempt(self, attempt: u32) => self.meta().attempt = attempt;

        /// Sets the number of attempts before the job becomes a dead letter.
        pub fn max_attempts(self, max_attempts: u32) => self.meta().max_attempts = max_attempts;

        /// Sets how many times the job has been redriven.
        pub fn generation(self, generation: u32) => self.meta().generation = generation;

        /// Sets the id.
        pub fn id(self, id: JobId) => self.meta().id = id;

        /// Sets the queue.
        pub fn queue(self, queue: &str) => self.meta().queue = queue.into();

        /// Sets the group.
        pub fn group(self, group: &str) => self.meta().group = Some(group.into());

        /// Adds a header.
        pub fn header(self, name: &str, value: &str) =>
            self.meta().headers.0.insert(name.to_owned(), value.to_owned());
    }

    /// Asks the handler to end, as a stop, a deadline or an operator does.
    pub fn cancelled(self) -> Sample<P> {
        self.job.signal.cancel_by_stop();
        self
    }

    /// Returns the job.
    pub(crate) fn into_job(self) -> Job<P> {
        self.job
    }

    fn meta(&mut self) -> &mut JobMeta {
        Arc::make_mut(&mut self.job.meta)
    }
}

impl<P> Deref for Sample<P> {
    type Target = Job<P>;

    fn deref(&self) -> &Job<P> {
        &self.job
    }
}
