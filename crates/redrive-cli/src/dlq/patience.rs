//! How long a command waits for the outcomes of a run.

use std::time::{Duration, Instant};

use crate::prelude::*;

/// How long to wait without a new outcome by default.
const DEFAULT: Duration = Duration::from_hours(1);

/// How long to wait for the outcomes of a run.
#[derive(Args, Debug)]
#[command(next_help_heading = "Outcomes")]
#[group(skip)]
pub(super) struct WaitArgs {
    /// Send the letters, but do not wait for their outcomes, nor for an unreachable database.
    // The same option as the global one, with its full meaning here.
    #[arg(long)]
    no_wait: bool,
    #[command(flatten)]
    limit: MaxWait,
}

/// When to stop waiting.
#[derive(Args, Debug)]
#[command(next_help_heading = "Outcomes")]
#[group(skip)]
pub(super) struct MaxWait {
    /// Stop waiting, with exit code 1, after this long without a new outcome [default: 1h, plus the
    /// delay of the jobs]. The run continues.
    #[arg(long, value_name = "TIME", value_parser = time::parse, allow_hyphen_values = true)]
    max_wait: Option<Duration>,
}

impl WaitArgs {
    /// Whether --max-wait is given.
    pub(super) fn is_limited(&self) -> bool {
        self.limit.max_wait.is_some()
    }

    /// The patience for jobs that become ready after `delay`, which is added to the default.
    pub(super) fn patience(&self, delay: Option<Duration>) -> Patience {
        (!self.no_wait).then(|| self.limit.patience(delay))
    }
}

impl MaxWait {
    pub(super) fn patience(&self, delay: Option<Duration>) -> Duration {
        let default = DEFAULT.saturating_add(delay.unwrap_or_default());
        self.max_wait.unwrap_or(default)
    }
}

/// How long to wait without a new outcome; `None`: not at all.
pub(super) type Patience = Option<Duration>;

/// The number of letters sent and outcomes, and since when it has not grown.
#[derive(Default)]
pub(super) struct Stall(Option<(u64, Instant)>);

impl Stall {
    /// Notes the number. Returns whether it has not grown for too long.
    pub(super) fn is_over(&mut self, done: u64, patience: Patience, now: Instant) -> bool {
        match self.0 {
            Some((before, since)) if before == done => {
                patience.is_some_and(|limit| now.saturating_duration_since(since) >= limit)
            }
            _ => {
                self.0 = Some((done, now));
                false
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_ends_after_the_limit_without_a_new_outcome() {
        let begin = Instant::now();
        let at = |seconds| begin + Duration::from_secs(seconds);
        let (mut stall, limit) = (Stall::default(), Some(Duration::from_secs(10)));
        for (done, seconds, is_over) in [
            (0, 0, false),
            (0, 9, false),
            (1, 10, false),
            (1, 19, false),
            (1, 20, true),
            (2, 30, false),
        ] {
            assert_eq!(
                stall.is_over(done, limit, at(seconds)),
                is_over,
                "{seconds} s"
            );
        }
        let (mut none, zero) = (Stall::default(), Some(Duration::ZERO));
        assert!(!none.is_over(5, zero, at(0)));
        assert!(none.is_over(5, zero, at(0)));
        assert!(!none.is_over(5, None, at(1_000_000)));
    }
}
