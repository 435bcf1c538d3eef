//! Breaks what redrive stands on, and checks three independent records of what it did.

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a program that talks to a terminal"
)]
#![expect(
    clippy::expect_used,
    reason = "a harness reports by panicking: that is how a check fails"
)]
#![allow(
    clippy::wildcard_enum_match_arm,
    reason = "most of what there is concerns nobody but the one or two who match it"
)]

mod actor;
mod checker;
mod clock;
mod fault;
mod hunt;
mod interrupt;
mod mutant;
mod page;
mod plan;
mod poison;
mod proxy;
mod record;
mod report;
mod round;
mod scene;
mod server;
mod stage;
mod trail;
mod troupe;
mod wire;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum as _};

use crate::fault::Fault;
use crate::round::Round;

/// Breaks what redrive stands on, and checks what it did.
#[derive(Debug, Parser)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Everybody at work, with faults, and a check at the end
    Run(RunOptions),
    /// Mutants of redrive, each of which a scene must turn red
    Mutants(MutantOptions),
    /// One job that kills its workers among ten thousand that do not
    Poison(Programs),
    /// An actor of it
    #[command(hide = true)]
    Actor(actor::Options),
}

#[derive(Debug, Args)]
struct Programs {
    /// The folder of the server's programs
    #[arg(long, value_name = "FOLDER", env = "REDRIVE_POSTGRES_BIN")]
    postgres: PathBuf,
}

#[derive(Debug, Args)]
struct RunOptions {
    #[command(flatten)]
    programs: Programs,
    /// The seed of the first round; each has one more than the last
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// How many rounds
    #[arg(long, default_value_t = 1)]
    rounds: u64,
    /// How long a round is
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// Jobs a second
    #[arg(long, default_value_t = 150)]
    rate: u32,
    /// Only these faults, or none
    #[arg(long, value_delimiter = ',', value_enum)]
    faults: Option<Vec<Fault>>,
    /// No fault at all
    #[arg(long, conflicts_with = "faults")]
    calm: bool,
}

#[derive(Debug, Args)]
struct MutantOptions {
    #[command(flatten)]
    programs: Programs,
    /// Only these
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    only: Vec<String>,
}

fn main() -> ExitCode {
    let command = Arguments::parse().command;
    if !matches!(command, Command::Actor(_)) {
        interrupt::listen();
    }
    let ok = match command {
        Command::Run(options) => run(&options),
        Command::Mutants(options) => hunt::hunt(&options.programs.postgres, &options.only),
        Command::Poison(programs) => poison::isolate(&programs.postgres),
        Command::Actor(options) => {
            actor::run(&options);
            true
        }
    };
    if ok {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

fn run(options: &RunOptions) -> bool {
    let faults = match (options.calm, &options.faults) {
        (true, _) => Vec::new(),
        (false, Some(faults)) => faults.clone(),
        (false, None) => Fault::value_variants().to_vec(),
    };
    (options.seed..options.seed + options.rounds).all(|seed| {
        Round {
            programs: &options.programs.postgres,
            seed,
            length: Duration::from_secs(options.seconds),
            faults: faults.clone(),
            rate: options.rate,
        }
        .play()
    })
}
