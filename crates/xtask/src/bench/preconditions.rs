//! Whether results may be published: only of committed code, and only from an idle machine.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};

use crate::interrupt::Interrupt;

/// How long git may take.
const ANSWER: Duration = Duration::from_secs(10);
/// How long the use of the processors is observed.
const OBSERVED: Duration = Duration::from_secs(5);
/// The maximum share of the processors' time that other programs may use.
const MAX_BUSY: f64 = 0.10;

/// The conditions before a measurement.
#[derive(Clone, Debug, PartialEq)]
struct Preconditions {
    /// Changed files of the repository.
    changed: Vec<String>,
    /// The share of the processors' time that was used.
    busy: f64,
}

/// Returns an error that names the reason if results of this moment must not be published.
pub(super) fn check(root: &Path, interrupt: &Interrupt) -> Result<()> {
    let mut git = Command::new("git");
    git.args(["status", "--porcelain"]).current_dir(root);
    let changed = interrupt.stdout(&mut git, ANSWER)?;
    let before = Ticks::read()?;
    interrupt.pause(OBSERVED)?;
    let preconditions = Preconditions {
        changed: changed.lines().map(|line| line.trim().to_owned()).collect(),
        busy: Ticks::read()?.busy_since(before),
    };
    match preconditions.refusal() {
        Some(reason) => bail!("nothing was measured: {reason}"),
        None => Ok(()),
    }
}

impl Preconditions {
    /// Returns why results must not be published.
    fn refusal(&self) -> Option<String> {
        if let Some(first) = self.changed.first() {
            return Some(format!(
                "the results would not belong to a commit. {} files differ from it, such as \
                 `{first}`; commit or stash them",
                self.changed.len()
            ));
        }
        (self.busy > MAX_BUSY).then(|| {
            format!(
                "the machine is busy. Other programs used {:.0} % of the processors for {} s; the \
                 limit is {:.0} %. Stop them",
                self.busy * 100.0,
                OBSERVED.as_secs(),
                MAX_BUSY * 100.0
            )
        })
    }
}

/// The time of all processors since the start of the machine, in ticks.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Ticks {
    idle: f64,
    all: f64,
}

impl Ticks {
    fn read() -> Result<Ticks> {
        let text = fs::read_to_string("/proc/stat").context("cannot read /proc/stat")?;
        Ticks::parse(&text).context("/proc/stat has no line `cpu`")
    }

    /// Parses `cpu  user nice system idle iowait irq softirq steal guest guest_nice`.
    fn parse(text: &str) -> Option<Ticks> {
        let line = text.lines().find_map(|line| line.strip_prefix("cpu "))?;
        // Guests are included in `user` and `nice`.
        let ticks: Vec<f64> = line
            .split_whitespace()
            .take(8)
            .filter_map(|number| number.parse().ok())
            .collect();
        Some(Ticks {
            idle: ticks.get(3)? + ticks.get(4)?,
            all: ticks.iter().sum(),
        })
    }

    fn busy_since(self, before: Ticks) -> f64 {
        let all = (self.all - before.all).max(1.0);
        1.0 - (self.idle - before.idle) / all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_of_a_changed_tree_or_a_busy_machine_are_refused_with_the_reason() {
        let refusal = |changed: &[&str], busy| {
            let changed = changed.iter().map(|&line| line.to_owned()).collect();
            Preconditions { changed, busy }.refusal()
        };
        assert_eq!(refusal(&[], 0.0), None);
        assert_eq!(refusal(&[], MAX_BUSY), None);
        let busy = refusal(&[], 0.43).expect("a busy machine");
        assert!(busy.contains("43 %") && busy.contains("10 %"), "{busy}");
        let changed = refusal(&["M Cargo.toml", "?? x"], 0.0).expect("a changed tree");
        assert!(
            changed.contains("2 files") && changed.contains("`M Cargo.toml`"),
            "{changed}"
        );
    }

    #[test]
    fn the_use_of_the_processors_is_the_share_that_is_not_idle() {
        let at = |text| Ticks::parse(text).expect("a line of all processors");
        let before = at("cpu  100 0 50 800 50 0 0 0 9 9\ncpu0 1 2 3 4 5 6 7 8 9 10\n");
        let after = at("cpu  120 0 60 860 60 0 0 0 9 9\n");
        let is = |share: f64, expected: f64| (share - expected).abs() < 1e-9;
        assert!(is(after.busy_since(before), 0.3));
        assert!(is(before.busy_since(before), 1.0), "no time has passed");
        assert_eq!(Ticks::parse("intr 5\n"), None);
    }
}
