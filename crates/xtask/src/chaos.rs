//! `cargo xtask chaos`: faults under load, and the checker of what came of it.

use std::path::Path;
use std::process::Command;

use clap::Args;

use crate::cargo::{cargo, typed, workspace};
use crate::error::{Error, Result};
use crate::interrupt::Interrupt;
use crate::pgbouncer::PGBOUNCER;
use crate::postgres::Binaries;

/// The longest round, in minutes: a longer play is several rounds, each with a server and a seed
/// of its own, so that what is found can be had again in that time.
const LONGEST_ROUND: u64 = 5;
/// Jobs a second, unless it is said how many there are.
const RATE: u64 = 300;

/// How to play.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// The seed of the first round; each has one more than the last
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// How long, in rounds of five minutes at most
    #[arg(long, value_name = "M", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=1440))]
    minutes: u64,
    /// Only these faults, by name and with commas between them; an unknown name tells all
    #[arg(long, value_name = "LIST")]
    faults: Option<String>,
    /// About how many jobs; 300 a second unless said
    #[arg(long, value_name = "N")]
    jobs: Option<u64>,
    /// Everybody talks to the server through a PgBouncer in transaction mode
    #[arg(long)]
    pooler: bool,
    /// Instead: mutants of redrive, each of which a scene must turn red
    #[arg(long, conflicts_with_all = ["faults", "jobs", "poison", "pooler"])]
    mutants: bool,
    /// Instead: one job that kills its workers among ten thousand that do not
    #[arg(long, conflicts_with_all = ["faults", "jobs", "pooler"])]
    poison: bool,
}

/// Plays.
pub(crate) fn run(options: &Options, interrupt: &Interrupt) -> Result<()> {
    let root = workspace()?;
    if options.mutants {
        return play(&root, interrupt, &with_pooler("mutants", interrupt)?);
    }
    if options.poison {
        return play(&root, interrupt, &["poison".to_owned()]);
    }
    let rounds = options.minutes.div_ceil(LONGEST_ROUND);
    let seconds = options.minutes * 60 / rounds;
    let rate = options
        .jobs
        .map_or(RATE, |jobs| (jobs / (options.minutes * 60)).max(1));
    let mut arguments = vec!["run".to_owned()];
    for (name, value) in [
        ("--seed", options.seed),
        ("--rounds", rounds),
        ("--seconds", seconds),
        ("--rate", rate),
    ] {
        arguments.extend([name.to_owned(), value.to_string()]);
    }
    arguments.extend(
        options
            .faults
            .iter()
            .map(|faults| format!("--faults={faults}")),
    );
    if options.pooler {
        arguments.extend(with_pooler("--pooler=transaction", interrupt)?);
    }
    play(&root, interrupt, &arguments)
}

/// What `cargo xtask test` has time for: five rounds of a minute, every scene, every mutant, and the
/// poison, side by side.
pub(crate) fn check(root: &Path, interrupt: &Interrupt) -> Result<()> {
    play(root, interrupt, &with_pooler("budget", interrupt)?)
}

/// An argument that takes a PgBouncer, and where that is.
fn with_pooler(argument: &str, interrupt: &Interrupt) -> Result<[String; 2]> {
    let program = PGBOUNCER.find(interrupt)?;
    let program = format!("--pgbouncer={}", program.display());
    Ok([argument.to_owned(), program])
}

fn play(root: &Path, interrupt: &Interrupt, arguments: &[String]) -> Result<()> {
    let binaries = Binaries::find(interrupt)?;
    let mut command: Command = cargo(["run", "--quiet", "--locked", "--package=redrive-chaos"]);
    if !cfg!(debug_assertions) {
        command.arg("--release");
    }
    command.arg("--").args(arguments);
    println!("    $ {}", typed(&command));
    command
        .arg("--postgres")
        .arg(binaries.folder())
        .current_dir(root);
    let status = interrupt.run(&mut command)?;
    if status.success() {
        return Ok(());
    }
    Err(Error::new(format!(
        "`{}` ended with {status}",
        typed(&command)
    )))
}
