//! Whether results may be published: only of committed code, and only from an idle machine.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};

use crate::cargo::git;
use crate::interrupt::Interrupt;

/// How long the use of the processors is observed.
const OBSERVED: Duration = Duration::from_secs(5);
/// The maximum share of the processors' time that other programs may use.
const MAX_BUSY: f64 = 0.10;

/// Returns an error that names the reason if results of this moment must not be published.
pub(super) fn check(root: &Path, interrupt: &Interrupt) -> Result<()> {
    let changed = git(root, &["status", "--porcelain"], interrupt)?;
    let count = changed.lines().count();
    ensure!(
        count == 0,
        "nothing was measured: the results would not belong to a commit. {count} files differ from \
         it, such as `{}`; commit or stash them",
        changed.lines().next().unwrap_or_default().trim()
    );
    let before = ticks()?;
    interrupt.pause(OBSERVED)?;
    let after = ticks()?;
    let busy = 1.0 - (after.0 - before.0) / (after.1 - before.1).max(1.0);
    ensure!(
        busy <= MAX_BUSY,
        "nothing was measured: the machine is busy. Other programs used {:.0} % of the processors \
         for {} s; the limit is {:.0} %. Stop them",
        busy * 100.0,
        OBSERVED.as_secs(),
        MAX_BUSY * 100.0
    );
    Ok(())
}

/// Returns the idle time of all processors since the start of the machine, and the whole time, in ticks.
fn ticks() -> Result<(f64, f64)> {
    let text = fs::read_to_string("/proc/stat").context("cannot read /proc/stat")?;
    // `user nice system idle iowait irq softirq steal`. The guests behind them are included in `user` and `nice`.
    let line = text.lines().find_map(|line| line.strip_prefix("cpu "));
    let numbers = line.context("/proc/stat has no line `cpu`")?;
    let numbers = numbers.split_whitespace().take(8).map(str::parse::<f64>);
    let ticks = numbers.collect::<Result<Vec<f64>, _>>()?;
    Ok((ticks.iter().skip(3).take(2).sum(), ticks.iter().sum()))
}
