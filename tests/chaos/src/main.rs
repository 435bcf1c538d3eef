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

mod account;
mod actor;
mod bouncer;
mod budget;
mod checker;
mod clock;
mod fault;
mod hunt;
mod interrupt;
mod mutant;
mod opener;
mod page;
mod plan;
mod playbill;
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
use std::time::{Duration, Instant};

use clap::{Args, Parser, Subcommand, ValueEnum as _};
use redrive::Pooler;

use crate::account::{Account, Outcome};
use crate::fault::Fault;
use crate::playbill::{Play, play_all};
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
    /// What a check of a change has time for: rounds, scenes, mutants and the poison
    Budget(BudgetOptions),
    /// An actor of it
    #[command(hide = true)]
    Actor(actor::Options),
}

/// Programs that are not ours.
#[derive(Clone, Debug, Args)]
struct Programs {
    /// The folder of the server's programs
    #[arg(long, value_name = "FOLDER", env = "REDRIVE_POSTGRES_BIN")]
    postgres: PathBuf,
    /// The program `pgbouncer`
    #[arg(
        long,
        value_name = "FILE",
        env = "PGBOUNCER",
        default_value = "pgbouncer"
    )]
    pgbouncer: PathBuf,
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
    /// How many rounds at a time
    #[arg(long, default_value_t = 1)]
    at_once: usize,
    /// No fault at all
    #[arg(long, conflicts_with = "faults")]
    calm: bool,
    /// What is between the actors and the server: `transaction` for a PgBouncer in that mode
    #[arg(long, value_name = "MODE", default_value_t)]
    pooler: Pooler,
}

#[derive(Debug, Args)]
struct MutantOptions {
    #[command(flatten)]
    programs: Programs,
    /// Only these, or scenes, which are played as they should be
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    only: Vec<String>,
}

#[derive(Debug, Args)]
struct BudgetOptions {
    #[command(flatten)]
    programs: Programs,
    /// How many scenes at a time; a round is as heavy as two
    #[arg(long, default_value_t = 4)]
    at_once: usize,
}

fn main() -> ExitCode {
    let command = Arguments::parse().command;
    if !matches!(command, Command::Actor(_)) {
        interrupt::listen();
    }
    let ok = match command {
        Command::Run(options) => run(&options),
        Command::Mutants(options) => hunt::hunt(&options.programs, &options.only),
        Command::Poison(programs) => poison::isolate(&programs),
        Command::Budget(options) => budget::spend(&options.programs, options.at_once),
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
    let begin = Instant::now();
    let programs = &options.programs;
    let plays = (options.seed..options.seed + options.rounds).map(|seed| {
        let round = Round {
            programs,
            seed,
            length: Duration::from_secs(options.seconds),
            faults: faults.clone(),
            rate: options.rate,
            pooler: options.pooler,
        };
        Play {
            name: seed.to_string(),
            weight: 1,
            act: Box::new(move || round.play()) as Box<dyn Fn() -> Outcome + Send>,
        }
    });
    let played = play_all(plays.collect(), options.at_once);
    let rounds = played.into_iter().map(|play| {
        play.ended.unwrap_or_else(|why| Outcome {
            seed: play.name.parse().unwrap_or_default(),
            broke_off: Some(why),
            ..Outcome::default()
        })
    });
    let account = Account {
        rounds: rounds.collect(),
        planned: options.rounds,
        took: begin.elapsed(),
    };
    println!("{account}");
    account.is_green()
}
