//! `cargo xtask test --soak`: what needs hours, for nights.

use std::path::Path;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Result, bail};

use super::{Runner, Suite};
use crate::cargo::target_folder;
use crate::interrupt::Interrupt;
use crate::{bench, chaos, fuzz};

/// The length of a round of chaos.
const ROUND: Duration = Duration::from_mins(5);
/// How long the tests repeat in each cycle.
const STRESS: Duration = Duration::from_mins(10);
/// Random inputs for all properties together, and schedules of each model, in each cycle.
const INPUTS: u64 = 200_000;
const SCHEDULES: u64 = 5_000;

/// Repeats everything with new seeds until the time is over, also after failures. A part that has
/// begun is finished.
pub(super) fn run(root: &Path, time: Duration, interrupt: &Interrupt) -> Result<()> {
    let start = Instant::now();
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let first_seed = now.map_or(1, |now| now.as_secs() / 60);
    let mut runner = Runner {
        interrupt,
        root: root.to_owned(),
        suite: Suite::Deep,
        changes: None,
        only_changed: false,
        arguments: &[],
        server: None,
        evidence: target_folder(root).join("gate"),
    };
    let mut failures = Vec::new();
    'cycles: for seed in first_seed.. {
        for part in [
            Part::Chaos,
            Part::Stress,
            Part::Fuzz,
            Part::Scenarios,
            Part::Benches,
        ] {
            if start.elapsed() >= time {
                break 'cycles;
            }
            println!(
                "\n━━━ {part:?}, seed {seed}, after {} min",
                start.elapsed().as_secs() / 60
            );
            let result = part.run(&mut runner, seed);
            interrupt.check()?;
            if let Err(error) = result {
                println!("    FAILED: {error:#}");
                failures.push(format!("{part:?} with seed {seed}: {error:#}"));
            }
        }
    }
    println!(
        "\n━━━ {} min, {} failures",
        start.elapsed().as_secs() / 60,
        failures.len()
    );
    if failures.is_empty() {
        return Ok(());
    }
    bail!("{}", failures.join("\n"))
}

#[derive(Clone, Copy, Debug)]
enum Part {
    Chaos,
    Stress,
    Fuzz,
    Scenarios,
    Benches,
}

impl Part {
    fn run(self, runner: &mut Runner<'_>, seed: u64) -> Result<()> {
        let interrupt = runner.interrupt;
        match self {
            Part::Chaos => chaos::round(seed, ROUND, interrupt),
            Part::Stress => {
                runner.start_server()?;
                let mut tests = runner.tests()?;
                let time = format!("{}s", STRESS.as_secs());
                tests.args(["--retries", "0", "--stress-duration", &time]);
                runner.succeed(runner.served(&mut tests)?)
            }
            Part::Fuzz => fuzz::search(INPUTS, SCHEDULES, seed, interrupt),
            Part::Scenarios => chaos::check(Suite::Deep, seed, interrupt),
            Part::Benches => bench::check(&runner.root, interrupt).map(drop),
        }
    }
}
