//! `cargo xtask`: the commands of this repository.
//!
//! They work on a fresh machine: they find or install the programs that they need, and start their
//! own temporary PostgreSQL.

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command-line program"
)]

mod alerts;
mod bench;
mod cargo;
mod chaos;
mod child;
mod cluster;
mod dashboards;
mod demo;
mod fuzz;
mod generate;
mod interrupt;
mod mutants;
mod node_packages;
mod postgres;
mod programs;
mod prometheus;
mod scratch;
mod test;
mod tools;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::interrupt::{Interrupt, Interrupted};

/// The commands of this repository
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Show redrive at work: an outage, malformed orders, a fix and a redrive, in two minutes
    Demo(demo::DemoOptions),
    /// Write every generated file: lists, pages, dashboards and manifests
    Generate(generate::GenerateOptions),
    /// Check the alerts
    Alerts,
    /// Check the dashboards, and draw their screenshots
    Dashboards(dashboards::DashboardOptions),
    /// Inject faults under load, and check the results
    Chaos(chaos::ChaosOptions),
    /// Try a million random inputs, and many thread schedules of a worker
    Fuzz(fuzz::FuzzOptions),
    /// Change SQL in small ways, and find the changes that no test notices
    Mutants(mutants::MutantOptions),
    /// Measure redrive next to the bare server
    Bench(bench::BenchOptions),
    /// Run the checks that every change must pass
    Test(test::TestOptions),
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let result = Interrupt::listen().and_then(|interrupt| match arguments.command {
        Command::Demo(options) => demo::run(&options, &interrupt),
        Command::Generate(options) => generate::run(&options, &interrupt),
        Command::Alerts => alerts::run(&interrupt),
        Command::Dashboards(options) => dashboards::run(&options, &interrupt),
        Command::Chaos(options) => chaos::run(&options, &interrupt),
        Command::Fuzz(options) => fuzz::run(&options, &interrupt),
        Command::Mutants(options) => mutants::run(&options, &interrupt),
        Command::Bench(options) => bench::run(&options, &interrupt),
        Command::Test(options) => test::run(&options, &interrupt),
    });
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if error.downcast_ref::<Interrupted>().is_some() => {
            eprintln!("\n{Interrupted}");
            // As shells report it.
            ExitCode::from(130)
        }
        Err(error) => {
            eprint!("\nerror: {error}");
            for cause in error.chain().skip(1) {
                eprint!("\n  caused by: {cause}");
            }
            eprintln!();
            ExitCode::FAILURE
        }
    }
}
