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
use std::process::Command;
use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use clap::Args;
use redrive_benches::Measurement;

use self::machine::Machine;
use self::programs::Scenario;
pub(crate) use self::results::Results;
use self::results::ScenarioResult;
use self::rivals::Rivals;
use crate::cargo::{git, workspace};
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

pub(crate) fn run(options: &BenchOptions, interrupt: &Interrupt) -> Result<()> {
    let root = workspace()?;
    if options.publish {
        // Before the build, which makes the machine busy.
        preconditions::check(&root, interrupt)?;
    }
    let chosen = programs::chosen(&options.names, interrupt)?;
    let file = match options.publish {
        true => Some(root.join(PUBLISHED)),
        false => options.json.clone(),
    };
    // Fail now rather than after an hour of measuring.
    let mut results = match &file {
        Some(file) => Results::read(file)?,
        None => Results::default(),
    };
    let rivals = match chosen.iter().any(|one| one.name == rivals::SCENARIO) {
        true => Some(Rivals::install(&root, interrupt)?),
        false => None,
    };
    let binaries = Binaries::find(interrupt)?;
    let cluster = Cluster::start(&binaries, Durability::Measured, interrupt)?;
    let machine = Machine::detect(&cluster.url("postgres"))?;
    let commit = git(&root, &["describe", "--always", "--dirty"], interrupt)
        .unwrap_or_else(|_| "unknown".to_owned());
    println!("{machine}");
    let mut measured = Vec::new();
    for scenario in chosen {
        let mut command = Command::new(&scenario.program);
        command.arg(&scenario.name);
        if options.quick {
            command.arg("--quick");
        }
        if let Some(rivals) = &rivals {
            rivals.describe(&mut command);
        }
        let one = measure(scenario, &mut command, &cluster, commit.trim(), interrupt)?;
        results.replace(&machine, one.clone());
        // After each, so that an interrupt loses one at most.
        if let Some(file) = &file {
            results.write(file)?;
        }
        measured.push(one);
    }
    summary(&measured);
    match options.publish {
        true => generate::write(&root),
        false => Ok(()),
    }
}

fn measure(
    scenario: Scenario,
    command: &mut Command,
    cluster: &Cluster,
    commit: &str,
    interrupt: &Interrupt,
) -> Result<ScenarioResult> {
    let name = &scenario.name;
    let database = format!("bench_{name}");
    let folder = tempfile::tempdir().context("cannot create a temporary folder")?;
    let file = folder.path().join(name);
    let start = Instant::now();
    command
        .env("DATABASE_URL", cluster.create_database(&database)?)
        .env("REDRIVE_BENCH_ROWS", &file);
    interrupt.succeed(command).with_context(|| {
        format!("scenario `{name}` failed; to repeat it: cargo xtask bench {name}")
    })?;
    cluster.drop_database(&database)?;
    Ok(ScenarioResult {
        at: machine::now(&cluster.url("postgres"))?,
        commit: commit.to_owned(),
        seconds: start.elapsed().as_secs(),
        measurements: measurements(&file)?,
        name: scenario.name,
        description: scenario.description,
    })
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
    println!("\n{} scenarios", measured.len());
    for one in measured {
        let rows = one.measurements.iter();
        for row in rows.filter(|row| row.is_met() == Some(false)) {
            println!("    missed: {}: {}", one.name, row.name);
        }
    }
}
