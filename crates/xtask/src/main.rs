//! `cargo xtask`: the commands of this repository.
//!
//! * `cargo xtask demo`: a Friday evening with redrive, in under two minutes.
//! * `cargo xtask alerts`: the alerts, their tests, and what is made from them.
//! * `cargo xtask dashboards`: the dashboards, checked and drawn.
//! * `cargo xtask fuzz`: a million inputs, and many orders of the threads of a worker.
//! * `cargo xtask chaos`: faults under load, mutants, and the checker of what came of it.
//! * `cargo xtask bench`: how fast redrive is beside the bare server.
//! * `cargo xtask test`: everything that must hold before a change goes in; what CI runs.
//!
//! Both work on a fresh machine: they find PostgreSQL's server binaries, or install them where
//! they may, and start a throw-away cluster of their own.

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a program that talks to a terminal"
)]

mod account;
mod alerts;
mod bench;
mod cargo;
mod chaos;
mod cluster;
mod dashboards;
mod debian;
mod demo;
mod error;
mod fuzz;
mod interrupt;
mod packaged;
mod pgbouncer;
mod postgres;
mod prometheus;
mod test;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::interrupt::Interrupt;

/// The commands of this repository.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// A Friday evening with redrive: an outage, malformed orders, a fix, a redrive.
    Demo(demo::Options),
    /// The alerts: writes what is made from their rules, then checks them.
    Alerts,
    /// The dashboards of `grafana/`: checks them, and draws their screenshots.
    Dashboards(dashboards::Options),
    /// Faults under load, and a check of what came of it.
    Chaos(chaos::Options),
    /// A million inputs that nobody thought of, and many orders of the threads of a worker.
    Fuzz(fuzz::Options),
    /// How fast redrive is beside the bare server, on a durable server of its own.
    Bench(bench::Options),
    /// Everything that must hold before a change goes in.
    Test(test::Options),
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let outcome = Interrupt::listen().and_then(|interrupt| match arguments.command {
        Command::Demo(options) => demo::run(&options, &interrupt),
        Command::Alerts => alerts::run(&interrupt),
        Command::Dashboards(options) => dashboards::run(&options, &interrupt),
        Command::Chaos(options) => chaos::run(&options, &interrupt),
        Command::Fuzz(options) => fuzz::run(&options, &interrupt),
        Command::Bench(options) => bench::run(&options, &interrupt),
        Command::Test(options) => test::run(&options, &interrupt),
    });
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("\nerror: {error}");
            ExitCode::from(error.exit_code())
        }
    }
}
