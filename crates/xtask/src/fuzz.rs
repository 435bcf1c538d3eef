//! `cargo xtask fuzz`: a million inputs for the properties, and many schedules for the models.
//!
//! The properties are proptest tests in the modules `proptests` of the library, the command line
//! and the exporter. Coverage-guided fuzzing would need a nightly compiler.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use anyhow::Result;
use clap::Args;

use crate::cargo::{cargo, workspace};
use crate::interrupt::Interrupt;

/// The packages that have properties.
const PACKAGES: [&str; 3] = ["redrive", "redrive-cli", "redrive-exporter"];

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
    println!("properties: {inputs} inputs for each, seed {seed}");
    let mut command = cargo(["test", "--locked", "--profile", "fuzz", "--lib"]);
    for package in PACKAGES {
        command.args(["-p", package]);
    }
    command
        .args(["--no-fail-fast", "proptests::"])
        .env("PROPTEST_CASES", inputs.to_string())
        .env("PROPTEST_RNG_SEED", seed.to_string());
    interrupt.succeed(command.current_dir(workspace()?))
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

fn today() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(1, |since| since.as_secs() / 86_400)
}
