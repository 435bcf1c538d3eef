//! `cargo xtask chaos`: faults under load, and a check of the results.

use std::process::Command;

use anyhow::Result;
use clap::Args;

use crate::cargo::Artifacts;
use crate::interrupt::Interrupt;
use crate::postgres::Binaries;
use crate::programs::{FAKETIME, PGBOUNCER};
use crate::test::Suite;

#[derive(Debug, Args)]
#[command(disable_help_flag = true)]
pub(crate) struct ChaosOptions {
    /// Options of a run; `--help` lists them. After `--mutants`, those of the mutants
    #[arg(
        allow_hyphen_values = true,
        trailing_var_arg = true,
        value_name = "OPTIONS"
    )]
    options: Vec<String>,
}

pub(crate) fn run(options: &ChaosOptions, interrupt: &Interrupt) -> Result<()> {
    let (command, options) = match &*options.options {
        [first, rest @ ..] if first == "--mutants" => ("mutants", rest),
        all => ("run", all),
    };
    let arguments = [&[command.to_owned()], options].concat();
    chaos(&Binaries::find(interrupt)?, &arguments, interrupt)
}

/// The step of `cargo xtask test`. In the gate, the seed chooses the scenarios.
pub(crate) fn check(suite: Suite, seed: u64, interrupt: &Interrupt) -> Result<()> {
    let mut arguments = vec!["suite".to_owned()];
    match suite {
        Suite::Gate => arguments.push(format!("--smoke={seed}")),
        Suite::Deep => {}
    }
    chaos(&Binaries::find(interrupt)?, &arguments, interrupt)
}

/// Runs a minute of faults on another version of PostgreSQL.
pub(crate) fn check_version(binaries: &Binaries, interrupt: &Interrupt) -> Result<()> {
    chaos(binaries, &["run".to_owned()], interrupt)
}

/// Builds and runs the program of `tests/chaos`.
fn chaos(binaries: &Binaries, arguments: &[String], interrupt: &Interrupt) -> Result<()> {
    let artifacts = Artifacts::build(&["--bin", "chaos"], interrupt)?;
    FAKETIME.find(interrupt)?;
    let mut command = Command::new(artifacts.executable("chaos")?);
    command
        .args(arguments)
        .env("REDRIVE_POSTGRES_BIN", binaries.folder())
        .env(PGBOUNCER.variable, PGBOUNCER.find(interrupt)?);
    interrupt.succeed(&mut command)
}
