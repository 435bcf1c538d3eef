//! `cargo xtask chaos`: faults under load, and a check of the results.

use std::process::Command;

use anyhow::Result;
use clap::Args;

use crate::cargo::Artifacts;
use crate::interrupt::Interrupt;
use crate::postgres::Binaries;
use crate::programs::{FAKETIME, PGBOUNCER};
use crate::test::Suite;

/// The longest round, in minutes. A longer run has several rounds, each with its own server and
/// seed, so that a finding can be reproduced within one round.
const MAX_ROUND: u64 = 5;
/// Jobs a second without `--jobs`. With more, few of them run under a fault.
const DEFAULT_RATE: u64 = 20;
#[derive(Debug, Args)]
pub(crate) struct ChaosOptions {
    /// Seed of the first round; each further round adds one
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// How long to run, in rounds of at most five minutes
    #[arg(long, value_name = "M", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=1440))]
    minutes: u64,
    /// Inject only these faults, separated by commas; an unknown name lists all
    #[arg(long, value_name = "LIST")]
    faults: Option<String>,
    /// Enqueue about N jobs in the main queue, and as many in the others [default: 20 a second]
    #[arg(long, value_name = "N")]
    jobs: Option<u64>,
    /// Connect every process through a PgBouncer in transaction mode
    #[arg(long)]
    pooler: bool,
    /// Run the mutants of redrive instead; a scenario must detect each
    #[arg(long, conflicts_with_all = ["faults", "jobs", "poison", "pooler"])]
    mutants: bool,
    /// Run one job that kills its workers among ten thousand others instead
    #[arg(long, conflicts_with_all = ["faults", "jobs", "pooler"])]
    poison: bool,
}

pub(crate) fn run(options: &ChaosOptions, interrupt: &Interrupt) -> Result<()> {
    let chaos = Chaos::build(Binaries::find(interrupt)?, interrupt)?;
    if options.mutants {
        return chaos.run(&["mutants"]);
    }
    if options.poison {
        return chaos.run(&["poison"]);
    }
    let rounds = options.minutes.div_ceil(MAX_ROUND);
    let rate = options
        .jobs
        .map_or(DEFAULT_RATE, |jobs| (jobs / (options.minutes * 60)).max(1));
    let mut arguments = vec![
        "run".to_owned(),
        format!("--seed={}", options.seed),
        format!("--rounds={rounds}"),
        format!("--seconds={}", options.minutes * 60 / rounds),
        format!("--rate={rate}"),
    ];
    arguments.extend(
        options
            .faults
            .iter()
            .map(|faults| format!("--faults={faults}")),
    );
    if options.pooler {
        arguments.push("--pooler=transaction".to_owned());
    }
    chaos.run(&arguments)
}

/// The step of `cargo xtask test`. In the gate, the seed chooses the scenarios.
pub(crate) fn check(suite: Suite, seed: u64, interrupt: &Interrupt) -> Result<()> {
    let chaos = Chaos::build(Binaries::find(interrupt)?, interrupt)?;
    match suite {
        Suite::Gate => chaos.run(&["suite".to_owned(), format!("--smoke={seed}")]),
        Suite::Deep => chaos.run(&["suite"]),
    }
}

/// Runs a minute of faults on another version of PostgreSQL.
pub(crate) fn check_version(binaries: Binaries, interrupt: &Interrupt) -> Result<()> {
    Chaos::build(binaries, interrupt)?.run(&["run", "--seed=1", "--rounds=1", "--seconds=60"])
}

/// The program of `tests/chaos`.
struct Chaos<'a> {
    artifacts: Artifacts,
    binaries: Binaries,
    interrupt: &'a Interrupt,
}

impl Chaos<'_> {
    fn build(binaries: Binaries, interrupt: &Interrupt) -> Result<Chaos<'_>> {
        let artifacts = Artifacts::build(&["--bin", "chaos"], interrupt)?;
        Ok(Chaos {
            artifacts,
            binaries,
            interrupt,
        })
    }

    fn run(&self, arguments: &[impl AsRef<std::ffi::OsStr>]) -> Result<()> {
        FAKETIME.find(self.interrupt)?;
        let mut command = Command::new(self.artifacts.executable("chaos")?);
        command
            .args(arguments)
            .env("REDRIVE_POSTGRES_BIN", self.binaries.folder())
            .env(PGBOUNCER.variable, PGBOUNCER.find(self.interrupt)?);
        self.interrupt.succeed(&mut command)
    }
}
