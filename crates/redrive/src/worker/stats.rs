//! Counts what a worker has done.

use crate::sync::atomic::{AtomicU64, Ordering};

/// Declares the counters of a queue, and their values as programs see them.
macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// The counters behind [`WorkerStats`].
        #[derive(Debug, Default)]
        pub(crate) struct Counters {
            $(pub(crate) $name: AtomicU64,)*
        }

        impl Counters {
            /// Adds what they have counted to the sum of several.
            pub(crate) fn add_to(&self, sum: &mut WorkerStats) {
                $(sum.$name += self.$name.load(Ordering::Acquire);)*
            }
        }

        /// Counts what a worker has done since it started.
        ///
        /// Results count when the database has recorded them.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        #[non_exhaustive]
        pub struct WorkerStats {
            $($(#[$doc])* pub $name: u64,)*
        }
    };
}

counters! {
    /// Jobs completed.
    done,
    /// Attempts that failed and will be retried.
    retried,
    /// Jobs snoozed by their handlers.
    snoozed,
    /// Attempts that met an outage. They are not charged.
    outages,
    /// Jobs that became dead letters.
    dead,
    /// Jobs released before they started, when the worker stopped, or when an outage interrupted them.
    released,
    /// Results rejected because their lease was lost.
    lost,
    /// Times it began to look for jobs, whether or not it could take any. Each look begins after the one
    /// before has ended.
    looks,
    /// Times it read the breakers, pauses and limits of its queue, and acted on them from then on.
    readings,
}
