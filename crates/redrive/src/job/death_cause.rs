//! Causes of death. A closed list, identical in SQL, metrics and the CLI.

use crate::job::words::words;

words! {
    /// Why a job became a dead letter.
    pub enum DeathCause is "cause" {
        /// All attempts failed or panicked.
        Exhausted = "exhausted",
        /// The handler rejected the job ([`Failure::reject`](crate::Failure::reject)).
        Rejected = "rejected",
        /// The payload does not match the type of its handler.
        Undecodable = "undecodable",
        /// A worker without a handler for the kind received the job, or no live worker handled the kind
        /// for the [configured time](crate::WorkerBuilder::unhandled_after).
        Unhandled = "unhandled",
        /// The last attempt exceeded its deadline.
        Timeout = "timeout",
        /// Three workers were lost while they ran the job. It probably crashes its process.
        WorkerLost = "worker_lost",
        /// The job did not start in time ([`NewJob::expires_in`](crate::NewJob::expires_in)).
        Expired = "expired",
        /// A failure from another system that was captured. It never was a job.
        Captured = "captured",
        /// An operator cancelled the job.
        Manual = "manual",
        /// An earlier job of its group is dead, and the policy of the queue is
        /// [`Divert`](crate::GroupDeath::Divert). The job was not attempted.
        Diverted = "diverted",
    }
}
