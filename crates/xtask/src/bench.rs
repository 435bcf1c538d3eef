//! `cargo xtask bench`: how fast redrive is next to the bare server.
//!
//! Each scenario runs in its own process and database, all on one durable server.

mod machine;
mod preconditions;
mod programs;
mod results;
pub(crate) mod rivals;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use clap::Args;
use redrive_benches::Measurement;

use self::machine::Machine;
use self::programs::{Programs, Scenario};
pub(crate) use self::results::Results;
use self::results::ScenarioResult;
use self::rivals::Rivals;
use crate::cargo::workspace;
use crate::cluster::{Cluster, Durability};
use crate::generate;
use crate::interrupt::Interrupt;
use crate::postgres::Binaries;

/// The published results, below the root of the workspace.
pub(crate) const PUBLISHED: &str = "benches/results.json";

#[derive(Debug, Args)]
pub(crate) struct BenchOptions {
    /// Scenarios to run [default: all but `rivals`, which installs graphile-worker from npm]
    #[arg(value_name = "NAME")]
    names: Vec<String>,
    /// Run everything small, to see whether it works
    #[arg(long)]
    quick: bool,
    /// Update this file of results; scenarios that do not run keep theirs
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Update benches/results.json and the table of benches/README.md; refused if files
    /// differ from the commit or the machine is busy
    #[arg(long, conflicts_with_all = ["json", "quick"])]
    publish: bool,
}

/// How much a scenario measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scale {
    /// Enough for a reliable number.
    Full,
    /// Enough to see whether it works.
    Quick,
}

pub(crate) fn run(options: &BenchOptions, interrupt: &Interrupt) -> Result<()> {
    let root = workspace()?;
    if options.publish {
        // Before the build, which makes the machine busy.
        preconditions::check(&root, interrupt)?;
    }
    let programs = Programs::build(interrupt)?;
    let chosen = programs.chosen(&options.names)?;
    let file = match options.publish {
        true => Some(root.join(PUBLISHED)),
        false => options.json.clone(),
    };
    let scale = match options.quick {
        true => Scale::Quick,
        false => Scale::Full,
    };
    // Fail now rather than after an hour of measuring.
    let mut results = match &file {
        Some(file) => Results::read(file)?,
        None => Results::default(),
    };
    let measured = measure(&root, &chosen, scale, interrupt, |machine, one| {
        results.replace(machine, one);
        match &file {
            // After each, so that an interrupt loses one at most.
            Some(file) => results.write(file),
            None => Ok(()),
        }
    })?;
    summary(&measured);
    match options.publish {
        true => generate::write(&root),
        false => Ok(()),
    }
}

fn measure(
    root: &Path,
    chosen: &[&Scenario],
    scale: Scale,
    interrupt: &Interrupt,
    mut done: impl FnMut(&Machine, ScenarioResult) -> Result<()>,
) -> Result<Vec<ScenarioResult>> {
    let rivals = match chosen.iter().any(|one| one.name == rivals::SCENARIO) {
        true => Some(Rivals::install(root, interrupt)?),
        false => None,
    };
    let binaries = Binaries::find(interrupt)?;
    let cluster = Cluster::start(&binaries, Durability::Measured, interrupt)?;
    let machine = Machine::detect(root, &cluster.url("postgres"), interrupt)?;
    println!("{machine}");
    let folder = tempfile::tempdir().context("cannot create a temporary folder")?;
    let mut all = Vec::new();
    for scenario in chosen {
        let database = format!("bench_{}", scenario.name);
        let url = cluster.create_database(&database)?;
        let file = folder.path().join(&scenario.name);
        let start = Instant::now();
        let mut command = scenario.command(scale);
        command
            .env("DATABASE_URL", &url)
            .env("REDRIVE_BENCH_ROWS", &file)
            .env("REDRIVE_BENCH_LOG", cluster.log());
        if let Some(rivals) = &rivals {
            rivals.describe(&mut command);
        }
        interrupt.succeed(&mut command).with_context(|| {
            let name = &scenario.name;
            format!("scenario `{name}` failed; to repeat it: cargo xtask bench {name}")
        })?;
        cluster.drop_database(&database)?;
        let measurements = measurements(&file)?;
        let one = ScenarioResult {
            name: scenario.name.clone(),
            description: scenario.description.clone(),
            at: machine::now(&cluster.url("postgres"))?,
            commit: machine.commit().to_owned(),
            seconds: start.elapsed().as_secs(),
            measurements,
        };
        done(&machine, one.clone())?;
        all.push(one);
    }
    Ok(all)
}

/// Reads the report of a scenario. An empty report is an error.
fn measurements(file: &Path) -> Result<Vec<Measurement>> {
    let text = fs::read_to_string(file).unwrap_or_default();
    let all = text
        .lines()
        .map(|line| serde_json::from_str(line).with_context(|| format!("cannot read `{line}`")))
        .collect::<Result<Vec<Measurement>>>()?;
    ensure!(!all.is_empty(), "the scenario reported nothing");
    Ok(all)
}

fn summary(measured: &[ScenarioResult]) {
    let rows = || {
        measured
            .iter()
            .flat_map(|one| one.measurements.iter().map(move |row| (one, row)))
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
