//! `cargo xtask mutants`: changes each statement and each function of the schema in small ways, and
//! runs the integration tests that should notice.
//!
//! No mutant is compiled. A proxy between the tests and the server replaces the text of a statement,
//! and a changed function is created in the database that the tests copy.

mod code;
mod operators;
mod source;
mod mutant;
mod accepted;
mod proxy;
mod parallel;
mod integration;
mod coverage;
mod trial;
mod report;

use std::path::Path;
use std::thread;

use anyhow::{Result, ensure};
use clap::Args;

use self::accepted::Accepted;
use self::coverage::Coverage;
use self::integration::Integration;
use self::mutant::{SqlMutant, mutants, sample};
pub(crate) use self::source::files as sql_files;
use crate::cargo::git;
use crate::interrupt::Interrupt;

/// How many mutants are tried at a time on each core. Tests wait for the server for a third of their
/// time.
const PLACES_PER_CORE: usize = 2;

#[derive(Debug, Args)]
pub(crate) struct MutantOptions {
    /// Try only N mutants, which the seed chooses among those without a reason to survive
    #[arg(long, value_name = "N")]
    sample: Option<usize>,
    /// Seed of the sample [default: the commit]
    #[arg(long, value_name = "S")]
    seed: Option<String>,
    /// Try only the mutants of files whose path contains this, of the statement or function with
    /// this name, or the one with this id; repeatable
    #[arg(long, value_name = "WHAT")]
    only: Vec<String>,
    /// List the mutants instead of trying them
    #[arg(long)]
    list: bool,
}

pub(crate) fn run(options: &MutantOptions, interrupt: &Interrupt) -> Result<()> {
    let integration = Integration::start(interrupt)?;
    let sources = source::sources(&integration.root)?;
    source::check_functions(&sources, &integration.functions()?)?;
    let all = mutants(&sources);
    let accepted = Accepted::read(&integration.root, &all)?;
    let generated = all.len();
    let selected = options.select(all, &accepted, &integration.root, interrupt)?;
    println!(
        "{} of {generated} mutants of {} statements and functions; {} have a reason to survive",
        selected.len(),
        sources.len(),
        accepted.len(),
    );
    if options.list {
        for mutant in &selected {
            println!("{}", report::described(mutant));
        }
        return Ok(());
    }
    let places = thread::available_parallelism()?.get() * PLACES_PER_CORE;
    let coverage = Coverage::of(&integration, &sources, places)?;
    let print =
        |mutant: &SqlMutant<'_>, outcome: &_| println!("{}", report::outcome(mutant, outcome));
    let outcomes = trial::outcomes(&integration, &coverage, &selected, places, print)?;
    let trials: Vec<_> = selected.into_iter().zip(outcomes).collect();
    println!("\n{}", report::counts(&trials));
    report::verdict(&trials, &accepted)
}

impl MutantOptions {
    /// Returns the mutants to try.
    fn select<'a>(
        &self,
        mut mutants: Vec<SqlMutant<'a>>,
        accepted: &Accepted,
        root: &Path,
        interrupt: &Interrupt,
    ) -> Result<Vec<SqlMutant<'a>>> {
        if !self.only.is_empty() {
            let is_wanted =
                |mutant: &SqlMutant<'_>| self.only.iter().any(|only| mutant.matches(only));
            mutants.retain(is_wanted);
        }
        if let Some(size) = self.sample {
            let seed = match &self.seed {
                Some(seed) => seed.clone(),
                None => git(root, &["rev-parse", "--short=12", "HEAD"], interrupt)?,
            };
            // So that the run can be repeated.
            let seed = seed.trim();
            println!("    --sample {size} --seed {seed}");
            mutants.retain(|mutant| !accepted.has(mutant));
            mutants = sample(mutants, size, seed);
        }
        ensure!(!mutants.is_empty(), "no mutant matches --only");
        Ok(mutants)
    }
}
