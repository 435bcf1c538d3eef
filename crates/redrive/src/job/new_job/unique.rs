//! The unique key of a new job, and how long it keeps other jobs out.

use std::time::Duration;

use super::NewJob;
use crate::job::milliseconds::milliseconds;
use crate::job::setters::setters;
use crate::job::words::words;

words! {
    /// The part of the waiting job that a second enqueue changes; see [`NewJob::replace`].
    pub enum Replace is "part of a job" {
        /// The payload. The job keeps its time.
        Payload = "payload",
        /// The time: the delay counts from this enqueue. The job keeps its payload.
        Time = "time",
        /// The payload and the time.
        Both = "both",
    }
}

impl NewJob {
    setters! {
        /// Sets a unique key: the job is stored only if no live job of its queue has the same key. 1 to
        /// 200 bytes, without NUL.
        ///
        /// The job holds the key through retries, crashes and releases, until it is done, dead or
        /// cancelled. Its dead letter remembers the key without holding it. A redrive takes the key
        /// again, and leaves the letter open if another job holds it. A job that waits behind the letter in its
        /// [group](NewJob::group) keeps the key, and the letter is redriven without it.
        /// [`Queue::enqueue_job`](crate::Queue::enqueue_job) returns whether the job was stored.
        ///
        /// A key costs one index entry. Enqueueing waits for a transaction that is storing the same
        /// key.
        pub fn unique(self, key: impl Into<String>) => self.unique_key = Some(key.into());

        /// Lets the job hold its unique key only until a worker takes it, instead of until it is done.
        ///
        /// A second enqueue then stores a job while the first one runs, so a change that the first one may
        /// have missed is processed. The key stays free if the job is retried or released, and a redrive
        /// takes it again until the job starts. Needs [`unique`](NewJob::unique).
        pub fn until_started(self) => self.until_started = true;

        /// Changes the job that holds the unique key, if it still waits.
        ///
        /// The enqueue then returns [`Enqueued::Replaced`](crate::Enqueued::Replaced). The job keeps its id,
        /// priority, attempts, group and headers. A new payload ends the checkpoint of the old one, and with a new time, the
        /// job expires as this enqueue says. A job that a worker has taken is never changed, and neither
        /// is one of another kind: the enqueue returns
        /// [`Enqueued::Existing`](crate::Enqueued::Existing). With a delay and [`Replace::Both`], a burst
        /// of changes becomes one job that runs when they stop; with [`Replace::Payload`], it runs a
        /// fixed time after the first one. Needs [`unique`](NewJob::unique).
        ///
        /// The [guide](crate::_guide::groups) has an example.
        ///
        /// In your own transaction, no worker takes the changed job before you commit. Of several jobs of
        /// one call with the same key, the first one decides.
        pub fn replace(self, replace: Replace) => self.replace = Some(replace);

        /// Stores the job only if no job with the same key and a window was stored within this time, even if
        /// that job is done. At least 1 millisecond, at most ten years, rounded up to milliseconds.
        ///
        /// Otherwise the enqueue returns [`Enqueued::Existing`](crate::Enqueued::Existing) with the job that
        /// opened the window, or with the live job that holds the key. The window starts with the enqueue
        /// and counts by the database's clock; retries, death and a redrive do not change it. Enqueues
        /// without a window disregard it. With [`replace`](NewJob::replace), the enqueue changes the job if it
        /// still waits. Needs [`unique`](NewJob::unique).
        ///
        /// The [guide](crate::_guide::groups) has an example.
        pub fn unique_window(self, window: Duration) => self.unique_window = Some(window);
    }

    pub(crate) fn window_ms(&self) -> Option<i64> {
        self.unique_window.map(milliseconds)
    }
}
