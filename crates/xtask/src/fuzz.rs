//! `cargo xtask fuzz`: a million inputs for the properties, and many schedules for the models.
//!
//! The properties are proptest tests in the modules `proptests` of the library, the command line
//! and the exporter. Coverage-guided fuzzing would need a nightly compiler.

use std::process::Command;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Result, ensure};
use clap::Args;

use crate::cargo::{cargo, workspace};
use crate::interrupt::Interrupt;

/// The packages that have properties.
const PACKAGES: [&str; 3] = ["redrive", "redrive-cli", "redrive-exporter"];
/// The module of the properties, in each of the packages.
const MODULE: &str = "proptests::";
/// How long listing the properties may take, once they are built.
const LIST: Duration = Duration::from_mins(1);

#[derive(Debug, Args)]
pub(crate) struct FuzzOptions {
    /// Inputs for each of the properties, of which there are about forty
    #[arg(long, value_name = "N", default_value_t = 25_000)]
    inputs: u64,
    /// Schedules for each scenario of the models; heavy scenarios get fewer
    #[arg(long, value_name = "N", default_value_t = 20_000)]
    schedules: u64,
    /// Seed of the inputs and schedules [default: the number of today]
    #[arg(long, value_name = "S")]
    seed: Option<u64>,
}

pub(crate) fn run(options: &FuzzOptions, interrupt: &Interrupt) -> Result<()> {
    let seed = options.seed.unwrap_or_else(today);
    let start = Instant::now();
    if options.inputs > 0 {
        try_inputs(options.inputs, seed, interrupt)?;
    }
    if options.schedules > 0 {
        try_schedules(options.schedules, seed, interrupt)?;
    }
    println!("no failure in {} s", start.elapsed().as_secs());
    Ok(())
}

fn try_inputs(inputs: u64, seed: u64, interrupt: &Interrupt) -> Result<()> {
    // Build first: listing has a deadline.
    interrupt.succeed(properties()?.arg("--no-run"))?;
    let mut list = properties()?;
    list.args([MODULE, "--", "--list", "--format", "terse"]);
    let list = interrupt.stdout(&mut list, LIST)?;
    // A run of no tests passes.
    let count = list.lines().filter(|line| line.ends_with(": test")).count();
    ensure!(count > 0, "no properties in the modules `{MODULE}`");
    println!("{count} properties: {inputs} inputs for each, seed {seed}");
    interrupt.succeed(
        properties()?
            .args(["--no-fail-fast", MODULE])
            .env("PROPTEST_CASES", inputs.to_string())
            .env("PROPTEST_RNG_SEED", seed.to_string()),
    )
}

fn try_schedules(schedules: u64, seed: u64, interrupt: &Interrupt) -> Result<()> {
    println!("models: {schedules} schedules for each light scenario, starting at seed {seed}");
    let mut command = cargo(["test", "--locked", "--profile", "fuzz"]);
    command
        .args(["-p", "redrive-models", "--test", "schedules"])
        .env("REDRIVE_SCHEDULES", schedules.to_string())
        .env("REDRIVE_SEED", seed.to_string());
    interrupt.succeed(command.current_dir(workspace()?))
}

fn properties() -> Result<Command> {
    let mut command = cargo(["test", "--locked", "--profile", "fuzz", "--lib"]);
    for package in PACKAGES {
        command.args(["-p", package]);
    }
    command.current_dir(workspace()?);
    Ok(command)
}

fn today() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(1, |since| since.as_secs() / 86_400)
}
