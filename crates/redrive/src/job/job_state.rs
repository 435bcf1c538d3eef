//! The states of a job.

use crate::job::words::words;

words! {
    /// The state of a job.
    pub enum JobState is "job state" {
        /// Ready to be claimed.
        Ready = "ready",
        /// Scheduled, backing off or snoozed.
        Delayed = "delayed",
        /// Leased by a worker.
        Leased = "leased",
        /// Finished, and [kept](crate::WorkerBuilder::keep_done).
        Done = "done",
    }
}
