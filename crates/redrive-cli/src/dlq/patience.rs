//! How long a command waits for the outcomes of a run.

use std::time::Duration;

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
