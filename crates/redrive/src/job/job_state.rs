//! The states of a live job.

use crate::job::words::words;

words! {
    /// The state of a live job.
    pub enum JobState is "job state" {
        /// Ready to be claimed.
        Ready = "ready",
        /// Scheduled, backing off or snoozed.
        Delayed = "delayed",
        /// Leased by a worker.
        Leased = "leased",
    }
}
