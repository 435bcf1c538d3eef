//! The states of a dead letter.

use crate::job::words::words;

words! {
    /// The state of a dead letter.
    pub enum LetterState is "letter state" {
        /// The letter awaits a decision. A death opens it; a redrive or discard closes it.
        Open = "open",
        /// The letter was redriven and its job is live again.
        Redriving = "redriving",
        /// The job succeeded after a redrive. Retention or a prune may delete the letter.
        Recovered = "recovered",
        /// An operator closed the letter. Retention or a prune may delete it.
        Discarded = "discarded",
        /// The letter died of the same failure after repeated redrives. Only a forced redrive moves it.
        Quarantined = "quarantined",
    }
}
