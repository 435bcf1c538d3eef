//! The deaths that a redrive run tolerates.

use std::num::NonZeroU32;

use redrive::dlq::runs::RunOptions;

use crate::prelude::*;

/// When a run halts.
#[derive(Args, Debug)]
#[command(next_help_heading = "Outcomes")]
#[group(skip)]
pub(super) struct ToleranceArgs {
    /// Halt the run, and exit with 1, if more than this share of the letters die again
    /// [default: 10%].
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    tolerate: Option<u8>,
    /// Halt only after this many outcomes [default: 20]. A canary needs none but its own.
    #[arg(long, value_name = "N")]
    sample: Option<NonZeroU32>,
    /// Send all letters, however many die again.
    #[arg(long, conflicts_with_all = ["sample", "canary"])]
    no_halt: bool,
}

impl ToleranceArgs {
    pub(super) fn is_given(&self) -> bool {
        self.tolerate.is_some() || self.sample.is_some() || self.no_halt
    }

    pub(super) fn apply(&self, options: RunOptions) -> RunOptions {
        options
            .with(self.tolerate, RunOptions::tolerate)
            .with(self.sample.map(NonZeroU32::get), RunOptions::sample)
            .with_flag(self.no_halt, RunOptions::never_halt)
    }
}

fn percent(text: &str) -> std::result::Result<u8, String> {
    let number = text.strip_suffix('%').unwrap_or(text);
    match number.parse() {
        Ok(percent @ 0..=100) => Ok(percent),
        _ => Err("expected a percentage from 0% to 100%".to_owned()),
    }
}
