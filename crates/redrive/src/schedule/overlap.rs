//! The behavior of a tick while an earlier job is live.

use crate::job::words::words;

words! {
    /// The behavior of a tick while an earlier job of the schedule is ready, running or waiting for a retry.
    #[derive(Default)]
    pub enum Overlap is "overlap" {
        /// The tick enqueues its job.
        #[default]
        Allow = "allow",
        /// The tick is skipped.
        ///
        /// The job holds a [unique key](crate::NewJob::unique) of its queue while it is live. Its dead letter
        /// does not, but a redriven job does. Jobs that were enqueued before this setting hold no key.
        Skip = "skip",
    }
}
