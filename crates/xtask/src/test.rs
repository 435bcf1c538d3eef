//! `cargo xtask test`: everything that must hold before a change goes in.

mod deny;
mod package;

use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};

use crate::alerts;
use crate::bench;
use crate::cargo::{cargo, typed, workspace};
use crate::chaos;
use crate::cluster::{Cluster, Durability};
use crate::dashboards;
use crate::error::{Error, Result};
use crate::interrupt::Interrupt;
use crate::pgbouncer::PGBOUNCER;
use crate::postgres::Binaries;
use crate::prometheus::PROMTOOL;

/// What of it to run.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Run this step alone; may be given more than once
    #[arg(long, value_name = "STEP")]
    only: Vec<Step>,
    /// Arguments for the test runner: a filter, for example
    #[arg(last = true, value_name = "ARGS")]
    runner: Vec<String>,
}

/// One thing that must hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Step {
    /// Code is formatted
    Format,
    /// Clippy has nothing to say
    Lint,
    /// Unit and integration tests pass, on a throw-away PostgreSQL
    Tests,
    /// The examples in the documentation run, on a throw-away PostgreSQL
    DocTests,
    /// The documentation builds without a warning
    Docs,
    /// The alerts: their rules, the tests of them, and changes of them that a test must notice
    Alerts,
    /// The dashboards are what Grafana takes, and every panel of them has data and can be drawn
    Dashboards,
    /// Faults under load, mutants that must be noticed, and a poisonous job
    Chaos,
    /// The benchmarks run, small
    Benches,
    /// Dependencies: bans, licences, sources, advisories
    Deny,
    /// What would be published is complete and builds by itself
    Package,
}

/// Runs the steps, quickest first; the first that fails ends it.
pub(crate) fn run(options: &Options, interrupt: &Interrupt) -> Result<()> {
    let begin = Instant::now();
    let steps: Vec<Step> = if options.only.is_empty() {
        Step::value_variants().to_vec()
    } else {
        options.only.clone()
    };
    let mut bench = Bench {
        interrupt,
        root: workspace()?,
        server: None,
    };
    let mut report = Vec::new();
    for (at, step) in steps.iter().enumerate() {
        println!("\n━━━ {}/{} {}", at + 1, steps.len(), step.title());
        let begin = Instant::now();
        let remark = bench
            .take(*step, &options.runner)
            .map_err(|error| error.in_step(*step))?;
        println!("    ok, {}", shown(begin.elapsed()));
        report.push((step, begin.elapsed(), remark));
    }
    // Stopping the server belongs to the time it takes.
    drop(bench);
    println!("\n━━━ all passed in {}", shown(begin.elapsed()));
    for (step, time, remark) in report {
        println!("    {:>8}  {}", shown(time), step.title());
        if let Some(remark) = remark {
            println!("              {remark}");
        }
    }
    Ok(())
}

impl Step {
    fn title(self) -> &'static str {
        match self {
            Step::Format => "formatting",
            Step::Lint => "clippy, warnings denied",
            Step::Tests => "unit and integration tests",
            Step::DocTests => "documentation examples",
            Step::Docs => "documentation, warnings denied",
            Step::Alerts => "alerts",
            Step::Dashboards => "dashboards",
            Step::Chaos => "faults under load, mutants, and poison",
            Step::Benches => "benchmarks, small: that they run",
            Step::Deny => "dependencies: bans, licences, sources, advisories",
            Step::Package => "packages",
        }
    }

    fn name(self) -> String {
        self.to_possible_value()
            .map(|value| value.get_name().to_owned())
            .unwrap_or_default()
    }
}

impl Error {
    /// Says which step failed and how to have it again without the others.
    fn in_step(self, step: Step) -> Error {
        if self.exit_code() != 1 {
            return self;
        }
        Error::new(format!(
            "step `{}` ({}) failed: {self}\nThis step alone:  cargo xtask test --only {0}",
            step.name(),
            step.title(),
        ))
    }
}

/// What the steps share.
#[derive(Debug)]
struct Bench<'a> {
    interrupt: &'a Interrupt,
    root: PathBuf,
    server: Option<Server>,
}

/// The PostgreSQL of the tests.
#[derive(Debug)]
struct Server {
    _cluster: Cluster,
    /// For tests, which make databases of their own.
    superuser: String,
    /// For documentation examples, which all share one.
    examples: String,
}

impl Bench<'_> {
    /// Takes one step; what it answers is worth repeating at the end.
    fn take(&mut self, step: Step, runner: &[String]) -> Result<Option<String>> {
        match step {
            Step::Format => self.run(&mut cargo(["fmt", "--all", "--check"]))?,
            Step::Lint => self.run(cargo(["clippy", "--locked", "--workspace"]).args([
                "--all-targets",
                "--all-features",
                "--",
                "-D",
                "warnings",
            ]))?,
            Step::Tests => {
                let mut tests = self.runner()?;
                // It checks the exporter's page.
                tests.env(PROMTOOL.variable, PROMTOOL.find(self.interrupt)?);
                // They put it before their server.
                tests.env(PGBOUNCER.variable, PGBOUNCER.find(self.interrupt)?);
                self.run_on_postgres(tests.args(runner))?;
            }
            Step::DocTests => self.run_on_postgres(&mut cargo([
                "test",
                "--locked",
                "--workspace",
                "--all-features",
                "--doc",
                // Its files are the library's, whose examples run there.
                "--exclude=redrive-models",
            ]))?,
            Step::Docs => self.run(
                cargo([
                    "doc",
                    "--locked",
                    "--workspace",
                    "--all-features",
                    "--no-deps",
                ])
                .env("RUSTDOCFLAGS", "-D warnings"),
            )?,
            Step::Alerts => return alerts::check(&self.root, self.interrupt).map(Some),
            Step::Dashboards => dashboards::check(&self.root, self.interrupt)?,
            Step::Chaos => chaos::check(&self.root, self.interrupt)?,
            Step::Benches => return bench::smoke(&self.root, self.interrupt).map(Some),
            Step::Deny => return deny::check(self),
            Step::Package => package::check(self)?,
        }
        Ok(None)
    }

    /// The test runner: cargo-nextest where it is installed, which runs each test in a process
    /// of its own and ends with one line of totals.
    fn runner(&self) -> Result<Command> {
        Ok(if self.has("nextest")? {
            cargo([
                "nextest",
                "run",
                "--locked",
                "--workspace",
                "--all-features",
            ])
        } else {
            // `--all-targets` would run the benchmarks too.
            let mut tests = cargo(["test", "--locked", "--workspace", "--all-features"]);
            tests.args(["--lib", "--bins", "--tests", "--examples"]);
            tests
        })
    }

    /// Whether cargo knows this subcommand.
    fn has(&self, subcommand: &str) -> Result<bool> {
        let mut ask = cargo([subcommand, "--version"]);
        let answer = self.interrupt.output(&mut ask, Duration::from_secs(30))?;
        Ok(answer.is_some_and(|output| output.status.success()))
    }

    /// Runs a command with a database to work on.
    fn run_on_postgres(&mut self, command: &mut Command) -> Result<()> {
        let server = match self.server.take() {
            Some(server) => server,
            None => Server::start(self.interrupt)?,
        };
        command.env("REDRIVE_TEST_DATABASE_URL", &server.superuser);
        // Also so that no test ever meets the database that the caller's shell names.
        command.env("DATABASE_URL", &server.examples);
        self.server = Some(server);
        self.run(command)
    }

    /// Runs a command in the root of the workspace; an error when it fails.
    fn run(&self, command: &mut Command) -> Result<()> {
        println!("    $ {}", typed(command));
        let status = self.interrupt.run(command.current_dir(&self.root))?;
        if status.success() {
            return Ok(());
        }
        Err(Error::new(format!(
            "`{}` ended with {status}",
            typed(command)
        )))
    }

    /// Runs a command in the root of the workspace and answers what it printed.
    fn lines_of(&self, command: &mut Command) -> Result<String> {
        println!("    $ {}", typed(command));
        let output = self
            .interrupt
            .output(command.current_dir(&self.root), Duration::from_mins(5))?;
        match output {
            Some(output) if output.status.success() => {
                Ok(String::from_utf8_lossy(&output.stdout).into_owned())
            }
            Some(output) => Err(Error::new(format!(
                "`{}` ended with {}\n{}",
                typed(command),
                output.status,
                String::from_utf8_lossy(&output.stderr).trim_end(),
            ))),
            None => Err(Error::new(format!(
                "`{}` did not end within 5 minutes",
                typed(command)
            ))),
        }
    }
}

impl Server {
    fn start(interrupt: &Interrupt) -> Result<Server> {
        let binaries = Binaries::find(interrupt)?;
        let cluster = Cluster::start(&binaries, Durability::Throwaway, interrupt)?;
        let superuser = cluster.url("postgres");
        println!("    PostgreSQL {} at {superuser}", binaries.version());
        let examples = cluster.create_database("doctest")?;
        Ok(Server {
            _cluster: cluster,
            superuser,
            examples,
        })
    }
}

/// A time as people say it.
fn shown(time: Duration) -> String {
    let seconds = time.as_secs_f64();
    if seconds < 60.0 {
        format!("{seconds:.1} s")
    } else {
        format!("{} min {:02} s", time.as_secs() / 60, time.as_secs() % 60)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_shown_as_people_say_them() {
        assert_eq!(shown(Duration::from_millis(1230)), "1.2 s");
        assert_eq!(shown(Duration::from_millis(59_940)), "59.9 s");
        assert_eq!(shown(Duration::from_secs(61)), "1 min 01 s");
    }

    #[test]
    fn a_failed_step_says_how_to_have_it_again() {
        let error = Error::new("`cargo x` ended with exit status: 1").in_step(Step::DocTests);
        let error = error.to_string();
        assert!(
            error.ends_with("cargo xtask test --only doc-tests"),
            "{error}"
        );
        assert_eq!(Error::interrupted().in_step(Step::Docs).exit_code(), 130);
    }
}
