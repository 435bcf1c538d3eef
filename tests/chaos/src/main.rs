//! Injects faults into everything that redrive depends on, and checks three independent records of
//! what it did.

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "this program talks to a terminal"
)]
#![expect(
    clippy::expect_used,
    reason = "a panic fails the run, which is what a broken harness should do"
)]
#![allow(
    clippy::wildcard_enum_match_arm,
    reason = "most matches concern one or two of many variants"
)]

mod checker;
mod client;
mod clock;
mod db_trace;
mod environment;
mod facts;
mod fault;
mod gate;
mod history;
mod interrupt;
mod mutant;
mod processes;
mod report;
mod role;
mod round;
mod scenario;
mod schedule;
mod scheduler;
mod server;
mod suite;
mod verdict;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum as _};
use redrive_servers::SmallDisk;

use crate::fault::Fault;
use crate::round::Round;

/// Injects faults and checks what redrive did.
#[derive(Debug, Parser)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run rounds of random faults under load
    Run(RunOptions),
    /// Run mutants of redrive, each of which its scenario must reveal
    Mutants(MutantOptions),
    /// Run the suite of `cargo xtask test`: rounds, scenarios and mutants
    Suite(SuiteOptions),
    /// Run a client process
    #[command(hide = true)]
    Process {
        /// The parameters, as JSON
        options: String,
    },
}

/// External programs.
#[derive(Clone, Debug, Args)]
struct Programs {
    /// Folder of PostgreSQL's programs
    #[arg(long, value_name = "FOLDER", env = "REDRIVE_POSTGRES_BIN")]
    postgres: PathBuf,
}

/// Returns the faults that can be caused here. Only root can mount a small disk. The packages of npm lack the program
/// that copies a server for a standby.
fn possible_faults(programs: &Programs) -> Vec<Fault> {
    let mut faults = Fault::value_variants().to_vec();
    faults.retain(|fault| {
        let is_possible = match fault {
            Fault::DiskFull => SmallDisk::mount().is_ok(),
            Fault::Promote => {
                let programs = server::place_of(&programs.postgres);
                programs.join("pg_basebackup").is_file()
            }
            Fault::FakeClock => processes::faketime().is_some(),
            _ => true,
        };
        if !is_possible {
            println!("without the fault `{fault}`, which cannot be caused here");
        }
        is_possible
    });
    faults
}

/// The longest round, in minutes.
const MAX_ROUND: u64 = 5;

#[derive(Debug, Args)]
struct RunOptions {
    #[command(flatten)]
    programs: Programs,
    /// Seed of the first round; each further round adds one
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// How long to run, in rounds of at most five minutes, each with its own server and seed
    #[arg(long, value_name = "M", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=1440))]
    minutes: u64,
    /// Enqueue about N jobs in the main queue, and as many in the others [default: 20 a second]
    #[arg(long, value_name = "N")]
    jobs: Option<u32>,
    /// Inject only these faults
    #[arg(long, value_delimiter = ',', value_enum)]
    faults: Option<Vec<Fault>>,
    /// Connect every process through a `PgBouncer` in transaction mode
    #[arg(long)]
    pooler: bool,
}

#[derive(Debug, Args)]
struct MutantOptions {
    #[command(flatten)]
    programs: Programs,
    /// Run only these mutants, with their scenarios, or only these scenarios
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    only: Vec<String>,
}

#[derive(Debug, Args)]
struct SuiteOptions {
    #[command(flatten)]
    programs: Programs,
    /// Run five scenarios that the seed chooses, instead of three rounds, all scenarios and all mutants
    #[arg(long, value_name = "SEED")]
    smoke: Option<u64>,
}

fn main() -> ExitCode {
    let command = Arguments::parse().command;
    if !matches!(command, Command::Process { .. }) {
        interrupt::listen();
    }
    let has_passed = match command {
        Command::Run(options) => run(&options),
        Command::Mutants(options) => suite::run_mutants(&options.programs, &options.only),
        Command::Suite(options) => match options.smoke {
            Some(seed) => suite::run_smoke(&options.programs, seed),
            None => suite::run_deep(&options.programs),
        },
        Command::Process { options } => {
            role::run(&serde_json::from_str(&options).expect("the options of a process"));
            true
        }
    };
    ExitCode::from(u8::from(!has_passed))
}

fn run(options: &RunOptions) -> bool {
    let faults = options.faults.clone();
    let faults = faults.unwrap_or_else(|| possible_faults(&options.programs));
    // A finding can be reproduced within one round.
    let rounds = options.minutes.div_ceil(MAX_ROUND);
    let length = Duration::from_mins(options.minutes.div_ceil(rounds));
    let seconds = u32::try_from(60 * options.minutes).unwrap_or(u32::MAX);
    let rate = options
        .jobs
        .map_or(suite::RATE, |jobs| (jobs / seconds).max(1));
    let first = Round {
        programs: &options.programs,
        seed: options.seed,
        length,
        faults,
        rate,
        is_pooled: options.pooler,
    };
    suite::run_rounds(&first, rounds)
}
