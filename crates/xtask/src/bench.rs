//! `cargo xtask bench`: how fast redrive is beside the bare server.
//!
//! Each scenario runs in a process and on a database of its own, all on one durable server that
//! is started for it.

mod machine;
mod plot;
mod programs;
mod results;
mod tables;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::Args;

use self::machine::Machine;
use self::programs::{Programs, Scenario};
use self::results::{Measured, Results, Row};
use crate::cargo::workspace;
use crate::cluster::{Cluster, Durability};
use crate::error::{During, Error, Result};
use crate::interrupt::Interrupt;
use crate::postgres::Binaries;

/// Where published results are, below the root of the workspace.
const PUBLISHED: &str = "benches/results.json";

/// What is not run before a change goes in, because even small it takes long; it is built.
const TOO_LONG: &[&str] = &["backlog", "held", "letters", "million", "redrive", "scrape"];

/// What to measure.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// The scenarios to run; without any, all
    #[arg(value_name = "NAME")]
    names: Vec<String>,
    /// Everything small: whether it runs, not how fast it is
    #[arg(long)]
    quick: bool,
    /// Bring this file of results up to date; those of scenarios that are not run now stay
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Bring benches/results.json, its plot and the tables of benches/README.md up to date
    #[arg(long, conflicts_with_all = ["json", "quick"])]
    publish: bool,
}

/// How the scenarios are built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Profile {
    /// As fast as it gets.
    Bench,
    /// As the tests are, whose dependencies are then built already.
    Dev,
}

/// How much is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scale {
    /// Enough to say a number.
    Full,
    /// Enough to see whether it runs.
    Quick,
}

/// Measures, and writes what was measured where the options say.
pub(crate) fn run(options: &Options, interrupt: &Interrupt) -> Result<()> {
    let root = workspace()?;
    let programs = Programs::build(&root, Profile::Bench, interrupt)?;
    let chosen = programs.chosen(&options.names)?;
    let file = match options.publish {
        true => Some(root.join(PUBLISHED)),
        false => options.json.clone(),
    };
    let scale = match options.quick {
        true => Scale::Quick,
        false => Scale::Full,
    };
    // Before an hour is spent on measuring.
    let mut results = match &file {
        Some(file) => Results::read(file)?,
        None => Results::default(),
    };
    let measured = measure(&root, &chosen, scale, interrupt, |machine, one| {
        results.take(machine, one);
        match &file {
            // After each, so that an interrupt loses one at most.
            Some(file) => results.write(file),
            None => Ok(()),
        }
    })?;
    summary(&measured);
    if options.publish {
        let folder = root.join("benches");
        plot::write(&folder.join("results.svg"), &results)?;
        tables::write(&folder.join("README.md"), &results)?;
    }
    Ok(())
}

/// Runs most scenarios small, so that they cannot rot. Answers a remark.
pub(crate) fn smoke(root: &Path, interrupt: &Interrupt) -> Result<String> {
    let programs = Programs::build(root, Profile::Dev, interrupt)?;
    let long: Vec<String> = TOO_LONG.iter().map(|&name| name.to_owned()).collect();
    // An error when one of them has another name by now.
    programs.chosen(&long)?;
    let mut chosen = programs.chosen(&[])?;
    chosen.retain(|scenario| !long.contains(&scenario.name));
    let measured = measure(root, &chosen, Scale::Quick, interrupt, |_, _| Ok(()))?;
    Ok(format!("{} scenarios run", measured.len()))
}

fn measure(
    root: &Path,
    chosen: &[&Scenario],
    scale: Scale,
    interrupt: &Interrupt,
    mut done: impl FnMut(&Machine, Measured) -> Result<()>,
) -> Result<Vec<Measured>> {
    let binaries = Binaries::find(interrupt)?;
    let cluster = Cluster::start(&binaries, Durability::Measured, interrupt)?;
    let machine = Machine::look(root, &cluster.url("postgres"), interrupt)?;
    println!("{machine}");
    let place = tempfile::tempdir().during(|| "cannot make a temporary folder")?;
    let mut all = Vec::new();
    for scenario in chosen {
        let database = format!("bench_{}", scenario.name);
        let url = cluster.create_database(&database)?;
        let file = place.path().join(&scenario.name);
        let begin = Instant::now();
        let mut command = scenario.command(scale);
        command
            .env("DATABASE_URL", &url)
            .env("REDRIVE_BENCH_ROWS", &file)
            .env("REDRIVE_BENCH_LOG", cluster.log());
        let status = interrupt.run(&mut command)?;
        if !status.success() {
            return Err(Error::new(format!(
                "scenario `{}` ended with {status}\nThis one alone:  cargo xtask bench {0}",
                scenario.name
            )));
        }
        cluster.drop_database(&database)?;
        let rows = rows(&file)?;
        let one = Measured {
            name: scenario.name.clone(),
            what: scenario.what.clone(),
            at: machine::now(&cluster.url("postgres"))?,
            commit: machine.commit().to_owned(),
            seconds: begin.elapsed().as_secs(),
            rows,
        };
        done(&machine, one.clone())?;
        all.push(one);
    }
    Ok(all)
}

/// What a scenario reported; nothing is an error, because then nothing was measured.
fn rows(file: &Path) -> Result<Vec<Row>> {
    let text = fs::read_to_string(file).unwrap_or_default();
    let rows = text
        .lines()
        .map(|line| serde_json::from_str(line).during(|| format!("cannot read the row {line}")))
        .collect::<Result<Vec<Row>>>()?;
    if rows.is_empty() {
        return Err(Error::new("the scenario reported nothing"));
    }
    Ok(rows)
}

fn summary(measured: &[Measured]) {
    let rows = || {
        measured
            .iter()
            .flat_map(|one| one.rows.iter().map(move |row| (one, row)))
    };
    let with = rows().filter(|(_, row)| row.target.is_some()).count();
    println!(
        "\n{} scenarios, {} numbers, {with} of them with a target",
        measured.len(),
        rows().count()
    );
    for (one, row) in rows().filter(|(_, row)| row.reached().is_some_and(|reached| reached < 1.0)) {
        println!("    missed: {}: {}", one.name, row.name);
    }
}
