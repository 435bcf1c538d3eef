//! Letters whose jobs would wait: in a paused queue, behind a breaker, or for a worker.

use std::time::SystemTime;

use crate::dlq::prelude::*;
use crate::dlq::redrive::options::{RedriveOptions, RunLimits};

row! {
    /// Letters that no live worker would run: no worker serves the queue or handles the kind.
    #[derive(PartialEq, Eq)]
    pub struct Unserved {
        /// The queue they go to.
        pub queue: String,
        /// The kind.
        pub kind: String,
        /// The number of letters.
        pub letters: u64,
    }
}

row! {
    /// Letters whose jobs wait until a breaker closes or a queue is resumed.
    #[derive(PartialEq, Eq)]
    pub struct Gated {
        /// The breaker. `None`: the queue is paused.
        pub breaker: Option<String>,
        /// When the breaker opened or the pause began.
        pub since: SystemTime,
        /// The queue they go to.
        pub queue: String,
        /// The kind.
        pub kind: String,
        /// The number of letters.
        pub letters: u64,
    }
}

/// Why the jobs of letters wait. Both lists are empty if nothing blocks them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Blocked {
    /// Queues and kinds without a live worker.
    pub unserved: Vec<Unserved>,
    /// Queues and kinds in a paused queue or behind a breaker that is not closed.
    pub gated: Vec<Gated>,
}

impl Dlq<'_> {
    /// Checks the options of a redrive, and returns what would block the jobs of the letters that it would send. A
    /// preview has no operator, and needs no reason.
    pub(crate) fn blocked(
        self,
        filter: &LetterFilter,
        options: &RedriveOptions,
        run: RunLimits,
        operator: Option<&Operator>,
    ) -> Result<Blocked> {
        self.check_options(options, run, operator)?;
        let states: &[LetterState] = match options.force {
            true => &[LetterState::Open, LetterState::Quarantined],
            false => &[LetterState::Open],
        };
        self.blocked_in(filter, options.to_queue.as_deref(), states)
    }

    /// The statements of a redrive check them too, but only after many letters may have been read.
    fn check_options(
        self,
        options: &RedriveOptions,
        run: RunLimits,
        operator: Option<&Operator>,
    ) -> Result<()> {
        name::check_given("queue", options.to_queue.as_deref())?;
        self.db.ask().one(
            "check the options of a redrive",
            &sql::CHECK_REDRIVE,
            &[
                &options.to_queue,
                &options.priority.map(i32::from),
                &options.max_attempts,
                &(options.force && operator.is_some()),
                &operator.and_then(Operator::given_reason),
                &options.delay,
                &run.rate,
                &i64::from(run.canary),
                &i32::from(run.tolerated),
                &run.sample,
            ],
        )
    }

    /// Returns what blocks the jobs of the letters in these states.
    pub(crate) fn blocked_in(
        self,
        filter: &LetterFilter,
        to_queue: Option<&str>,
        states: &[LetterState],
    ) -> Result<Blocked> {
        let rows = self.db.ask_bulk().rows(
            "find breakers, pauses and queues without workers",
            &sql::BLOCKED_LETTERS,
            &[&filter.parameter()?, &to_queue, &states, &filter.limit],
        )?;
        let mut blocked = Blocked::default();
        for row in &rows {
            if !row.get::<_, bool>("is_served") {
                blocked.unserved.push(Unserved::from_row(row)?);
            }
            if row.get::<_, Option<SystemTime>>("since").is_some() {
                blocked.gated.push(Gated::from_row(row)?);
            }
        }
        Ok(blocked)
    }
}
