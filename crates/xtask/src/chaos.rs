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
    let chaos = Chaos::build(Binaries::find(interrupt)?, interrupt)?;
    let (command, options) = match &*options.options {
        [first, rest @ ..] if first == "--mutants" => ("mutants", rest),
        all => ("run", all),
    };
    chaos.run(&[&[command.to_owned()], options].concat())
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
    Chaos::build(binaries, interrupt)?.run(&["run"])
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
