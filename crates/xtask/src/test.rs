//! `cargo xtask test`: the checks that every change must pass.

mod deny;
mod package;
mod spelling;

use std::path::PathBuf;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use clap::{Args, ValueEnum};

use crate::cargo::{cargo, has_subcommand, workspace};
use crate::cluster::{Cluster, Durability};
use crate::interrupt::Interrupt;
use crate::postgres::{Binaries, NEWEST, OLDEST};
use crate::programs::{PGBOUNCER, PROMTOOL};
use crate::{alerts, bench, chaos, dashboards, scratch};

/// How many schedules each light scenario of the models gets in the quick suite. Without this
/// variable the models have their own default, which is higher.
const QUICK_SCHEDULES: (&str, &str) = ("REDRIVE_SCHEDULES", "100");
/// The target of the integration tests.
const INTEGRATION: &str = "it";
/// How many tests run at a time on each core.
const TEST_THREADS_PER_CORE: usize = 2;

#[derive(Debug, Args)]
pub(crate) struct TestOptions {
    /// Run the deep suite: all chaos scenarios and mutants, live dashboards, benchmarks,
    /// more schedules of the models, package builds, and the oldest and newest PostgreSQL
    #[arg(long)]
    full: bool,
    /// Run the integration tests and a minute of chaos on these versions of PostgreSQL instead,
    /// such as 14,15,16,17,18
    #[arg(long, value_name = "MAJOR,...", value_delimiter = ',', conflicts_with_all = ["full", "only"])]
    postgres: Vec<u32>,
    /// Run only this step; repeatable
    #[arg(long, value_name = "STEP")]
    only: Vec<Step>,
    /// Arguments for the test runner, such as a filter
    #[arg(last = true, value_name = "ARGS")]
    runner: Vec<String>,
}

/// How much a step checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Suite {
    /// The gate: what every landing must pass.
    Quick,
    /// The deep suite, which no landing waits for.
    Full,
}

/// Which tests to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scope {
    /// All tests of the workspace.
    Everything,
    /// Those that need a server.
    Integration,
}

/// A step of the suite.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Step {
    /// Formatting of the code
    Format,
    /// Spelling of code and documents
    Spelling,
    /// Clippy without warnings
    Lint,
    /// Unit and integration tests on a temporary PostgreSQL
    Tests,
    /// Examples in the documentation, on the same PostgreSQL
    DocTests,
    /// Documentation without warnings
    Docs,
    /// Alert rules and their tests
    Alerts,
    /// Dashboards; --full checks them against a live system and draws them
    Dashboards,
    /// Faults under load and mutants; --full runs every scenario
    Chaos,
    /// All benchmark scenarios, small; only with --full
    Benches,
    /// Bans, licenses, sources and advisories of dependencies; only with --full
    Deny,
    /// Contents of the published packages; --full builds them
    Package,
}

/// Runs all steps in order, also after a failure, and ends with one list of the failures.
pub(crate) fn run(options: &TestOptions, interrupt: &Interrupt) -> Result<()> {
    let start = Instant::now();
    let suite = if options.full {
        Suite::Full
    } else {
        Suite::Quick
    };
    let tasks = options.tasks(interrupt)?;
    let mut runner = Runner {
        interrupt,
        root: workspace()?,
        suite,
        arguments: &options.runner,
        server: None,
    };
    let mut report = Vec::new();
    let mut failures = Vec::new();
    for (number, task) in (1..).zip(&tasks) {
        println!("\n━━━ {number}/{} {}", tasks.len(), task.name());
        let start = Instant::now();
        let result = runner.run(*task);
        interrupt.check()?;
        let time = seconds(start.elapsed());
        let (word, remark) = match result {
            Ok(remark) => ("ok", remark),
            Err(error) => {
                failures.push(format!(
                    "{}: {error:#}\n    to repeat it: cargo xtask test {}",
                    task.name(),
                    task.options(suite)
                ));
                ("FAILED", format!("FAILED: {error:#}"))
            }
        };
        println!("    {word}, {time}");
        report.push(format!("{time:>14}  {:<13}  {remark}", task.name()));
    }
    // Stopping the server takes time, too.
    drop(runner);
    println!(
        "\n━━━ {} steps in {}",
        tasks.len(),
        seconds(start.elapsed())
    );
    println!("{}", report.join("\n"));
    if failures.is_empty() {
        println!("\n━━━ all passed");
        return Ok(());
    }
    bail!(
        "{} of {} steps failed\n{}",
        failures.len(),
        tasks.len(),
        failures.join("\n")
    )
}

impl TestOptions {
    /// Returns what to run, in this order.
    fn tasks(&self, interrupt: &Interrupt) -> Result<Vec<Task>> {
        if !self.postgres.is_empty() {
            return Ok(self.postgres.iter().copied().map(Task::Version).collect());
        }
        if !self.only.is_empty() {
            return Ok(self.only.iter().copied().map(Task::Step).collect());
        }
        let steps = Step::value_variants().iter().copied();
        let steps = steps.filter(|step| self.full || !step.is_deep());
        let mut tasks: Vec<_> = steps.map(Task::Step).collect();
        if self.full {
            let default = Binaries::find(interrupt)?;
            let others = [OLDEST, NEWEST].into_iter();
            let others = others.filter(|major| !default.is_major(*major));
            tasks.extend(others.map(Task::Version));
        }
        Ok(tasks)
    }
}

/// A part of the suite.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Task {
    /// A step, on the default PostgreSQL.
    Step(Step),
    /// The integration tests and a minute of chaos on a major version of PostgreSQL.
    Version(u32),
}

impl Task {
    fn name(self) -> String {
        match self {
            Task::Step(step) => step.name(),
            Task::Version(major) => format!("PostgreSQL {major}"),
        }
    }

    /// Returns the options that run only this task.
    fn options(self, suite: Suite) -> String {
        match (self, suite) {
            (Task::Step(step), Suite::Quick) => format!("--only {}", step.name()),
            (Task::Step(step), Suite::Full) => format!("--full --only {}", step.name()),
            (Task::Version(major), _) => format!("--postgres {major}"),
        }
    }
}

impl Step {
    /// Whether only the deep suite has this step.
    fn is_deep(self) -> bool {
        matches!(self, Step::Benches | Step::Deny)
    }

    fn name(self) -> String {
        self.to_possible_value()
            .map(|value| value.get_name().to_owned())
            .unwrap_or_default()
    }
}

/// Runs steps.
#[derive(Debug)]
struct Runner<'a> {
    interrupt: &'a Interrupt,
    root: PathBuf,
    suite: Suite,
    arguments: &'a [String],
    server: Option<Server>,
}

/// The PostgreSQL of the tests.
#[derive(Debug)]
struct Server {
    _cluster: Cluster,
    /// For tests, which create their own databases.
    superuser: String,
    /// For documentation examples, which share one database.
    examples: String,
}

impl Runner<'_> {
    /// Runs one task and returns a remark for the report, which may be empty.
    fn run(&mut self, task: Task) -> Result<String> {
        match task {
            Task::Step(step) => self.run_step(step),
            Task::Version(major) => self.run_on(major),
        }
    }

    fn run_step(&mut self, step: Step) -> Result<String> {
        match step {
            Step::Format => self.succeed(&mut cargo(["fmt", "--all", "--check"]))?,
            Step::Spelling => spelling::check(self)?,
            Step::Lint => self.succeed(
                cargo(["clippy", "--locked", "--workspace", "--all-targets"]).args([
                    "--all-features",
                    "--",
                    "-D",
                    "warnings",
                ]),
            )?,
            Step::Tests => {
                let mut tests = self.tests(Scope::Everything)?;
                if self.suite == Suite::Quick {
                    tests.env(QUICK_SCHEDULES.0, QUICK_SCHEDULES.1);
                }
                self.succeed_on_postgres(tests.args(self.arguments))?;
            }
            Step::DocTests => self.succeed_on_postgres(
                cargo([
                    "test",
                    "--locked",
                    "--workspace",
                    "--all-features",
                    "--doc",
                    "--no-fail-fast",
                ])
                // It compiles files of the library, whose examples run there.
                .arg("--exclude=redrive-models"),
            )?,
            Step::Docs => self.succeed(
                cargo([
                    "doc",
                    "--locked",
                    "--workspace",
                    "--all-features",
                    "--no-deps",
                ])
                .env("RUSTDOCFLAGS", "-D warnings"),
            )?,
            Step::Alerts => return alerts::check(&self.root, self.interrupt),
            Step::Dashboards => dashboards::check(&self.root, self.suite, self.interrupt)?,
            Step::Chaos => chaos::check(self.suite, self.interrupt)?,
            Step::Benches => return bench::check(&self.root, self.interrupt),
            Step::Deny => return deny::check(self),
            Step::Package => package::check(self)?,
        }
        Ok(String::new())
    }

    /// Runs the integration tests on a major version of PostgreSQL and, without a filter, a minute
    /// of chaos.
    fn run_on(&self, major: u32) -> Result<String> {
        let binaries = Binaries::of_version(major, self.interrupt)?;
        let server = Server::start(&binaries, self.interrupt)?;
        let mut tests = self.tests(Scope::Integration)?;
        // Tests of the sources do not depend on the server.
        tests.args(self.arguments).args(["--", "--skip", "tidy::"]);
        server.serve(&mut tests);
        self.succeed(&mut tests)?;
        drop(server);
        if self.arguments.is_empty() {
            chaos::check_version(binaries.clone(), self.interrupt)?;
        }
        Ok(binaries.version().to_owned())
    }

    /// The test runner: cargo-nextest if it is installed, otherwise `cargo test`.
    ///
    /// Always of the whole workspace: for one package, cargo selects other features of some dependencies and builds
    /// nearly everything again.
    fn tests(&self, scope: Scope) -> Result<Command> {
        let has_nextest = has_subcommand("nextest", self.interrupt)?;
        let mut tests = match has_nextest {
            true => cargo(["nextest", "run"]),
            false => cargo(["test"]),
        };
        tests.args(["--locked", "--workspace", "--all-features"]);
        match scope {
            Scope::Integration => tests.args(["--test", INTEGRATION]),
            Scope::Everything if has_nextest => &mut tests,
            // `--all-targets` would also run the benchmarks.
            Scope::Everything => tests.args(["--lib", "--bins", "--tests", "--examples"]),
        };
        // Tests wait for the server for a third of their time.
        let threads = thread::available_parallelism()?.get() * TEST_THREADS_PER_CORE;
        tests.env("NEXTEST_TEST_THREADS", threads.to_string());
        // Some tests start their own server.
        tests.env("TMPDIR", scratch::folder());
        tests.env(PROMTOOL.variable, PROMTOOL.find(self.interrupt)?);
        tests.env(PGBOUNCER.variable, PGBOUNCER.find(self.interrupt)?);
        Ok(tests)
    }

    /// Runs a command that needs a database.
    fn succeed_on_postgres(&mut self, command: &mut Command) -> Result<()> {
        let server = match self.server.take() {
            Some(server) => server,
            None => Server::start(&Binaries::find(self.interrupt)?, self.interrupt)?,
        };
        server.serve(command);
        self.server = Some(server);
        self.succeed(command)
    }

    /// Runs a command in the root of the workspace. It must succeed.
    fn succeed(&self, command: &mut Command) -> Result<()> {
        self.interrupt.succeed(command.current_dir(&self.root))
    }
}

impl Server {
    fn start(binaries: &Binaries, interrupt: &Interrupt) -> Result<Server> {
        let cluster = Cluster::start(binaries, Durability::Throwaway, interrupt)?;
        let superuser = cluster.url("postgres");
        println!("    PostgreSQL {} at {superuser}", binaries.version());
        let examples = cluster.create_database("doctest")?;
        Ok(Server {
            _cluster: cluster,
            superuser,
            examples,
        })
    }

    /// Makes a command use this server.
    fn serve(&self, command: &mut Command) {
        command.env("REDRIVE_TEST_DATABASE_URL", &self.superuser);
        // Overrides the caller's variable, so that no test touches the caller's database.
        command.env("DATABASE_URL", &self.examples);
    }
}

/// `1.2 s` or `1 min 01 s`.
fn seconds(time: Duration) -> String {
    if time.as_secs() < 60 {
        format!("{:.1} s", time.as_secs_f64())
    } else {
        format!("{} min {:02} s", time.as_secs() / 60, time.as_secs() % 60)
    }
}
