//! The deaths that a redrive run tolerates.

use std::num::NonZeroU32;

use clap::Args;
use redrive::dlq::runs::RunOptions;

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

    pub(super) fn apply(&self, mut options: RunOptions) -> RunOptions {
        if let Some(percent) = self.tolerate {
            options = options.tolerate(percent);
        }
        if let Some(outcomes) = self.sample {
            options = options.sample(outcomes.get());
        }
        match self.no_halt {
            true => options.never_halt(),
            false => options,
        }
    }

    /// The options as arguments for a shell.
    pub(super) fn words(&self) -> Vec<String> {
        let mut words = Vec::new();
        words.extend(
            self.tolerate
                .map(|percent| format!("--tolerate {percent}%")),
        );
        words.extend(self.sample.map(|outcomes| format!("--sample {outcomes}")));
        if self.no_halt {
            words.push("--no-halt".to_owned());
        }
        words
    }
}

/// Parses `10%` or `10`.
fn percent(text: &str) -> Result<u8, String> {
    let number = text.strip_suffix('%').unwrap_or(text);
    match number.parse() {
        Ok(percent @ 0..=100) => Ok(percent),
        _ => Err("expected a percentage from 0% to 100%".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentage_has_an_optional_sign() {
        for (text, expected) in [
            ("0", Some(0)),
            ("10%", Some(10)),
            ("100%", Some(100)),
            ("101", None),
            ("-1%", None),
            ("5%%", None),
            ("0.5", None),
            ("", None),
        ] {
            assert_eq!(percent(text).ok(), expected, "{text}");
        }
    }
}
