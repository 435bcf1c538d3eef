//! Letters whose jobs would wait: in a paused queue, behind a breaker, or for a worker.

use std::time::SystemTime;

use crate::dlq::prelude::*;
use crate::dlq::redrive::options::RedriveOptions;

row! {
    /// Letters of one queue and kind whose jobs wait: no live worker takes them, or a pause or a breaker holds them.
    #[derive(PartialEq, Eq)]
    pub struct Blocked {
        /// The queue they go to.
        pub queue: String,
        /// The kind.
        pub kind: String,
        /// The number of letters.
        pub letters: u64,
        /// Whether a live worker serves the queue and handles the kind.
        pub is_served: bool,
        /// When the pause or the breaker that holds them began; `None`: neither does.
        pub since: Option<SystemTime>,
        /// The breaker. `None`: the queue is paused, or no breaker holds them.
        pub breaker: Option<String>,
    }
}

impl Dlq<'_> {
    /// Returns why the jobs of redriven letters wait: in a paused queue, behind a breaker, or without a worker. With
    /// options, why those of the letters would wait that a redrive with them would send. Empty if none waits for these.
    ///
    /// # Errors
    /// *Invalid* with [`LetterFilter::after`], or if the queue of the options has no valid name; otherwise if the
    /// database fails.
    pub fn blocked(
        &self,
        filter: &LetterFilter,
        options: Option<&RedriveOptions>,
    ) -> Result<Vec<Blocked>> {
        let to_queue = options.and_then(|options| options.to_queue.as_deref());
        name::check_given("queue", to_queue)?;
        let forced = options.map(|options| options.force);
        self.db.ask_bulk().all(
            "find breakers, pauses and queues without workers",
            &sql::BLOCKED_LETTERS,
            &[&filter.whole()?, &to_queue, &forced, &filter.limit],
        )
    }
}
