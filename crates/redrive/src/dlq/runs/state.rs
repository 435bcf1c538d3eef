//! The states of a redrive run.

use crate::job::words::words;

words! {
    /// The state of a run.
    pub enum RunState is "run state" {
        /// It is large enough to need the approval of a second operator.
        Unapproved = "unapproved",
        /// A driver sends its letters, or a worker is about to take it over.
        Running = "running",
        /// An operator paused it.
        Paused = "paused",
        /// Too many letters died again. Only an explicit resume continues it.
        Halted = "halted",
        /// An operator cancelled it.
        Cancelled = "cancelled",
        /// Every letter was tried. Some of the jobs may still run.
        Finished = "finished",
    }
}
