//! `cargo xtask test`: the checks that every change must pass.

mod changes;
mod deny;
mod package;
mod results;

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow, bail, ensure};
use clap::{Args, ValueEnum};

use self::changes::{Changes, exactly};
use self::results::{Failure, Results};
use crate::cargo::{cargo, git, target_folder, workspace};
use crate::cluster::{Cluster, Durability};
use crate::dashboards::Checks;
use crate::interrupt::Interrupt;
use crate::postgres::{Binaries, NEWEST, OLDEST};
use crate::programs::{FAKETIME, NODE, NPM, PGBOUNCER, PROMTOOL, for_tests};
use crate::tools::typos;
use crate::{alerts, chaos, dashboards, generate};

/// How many schedules each light scenario of the models gets in the gate. Without this variable the
/// models have their own default, which is higher.
const GATE_SCHEDULES: (&str, &str) = ("REDRIVE_SCHEDULES", "100");
/// The target of the integration tests.
const INTEGRATION: &str = "it";
/// How many tests run at a time on each core.
const TEST_THREADS_PER_CORE: usize = 3;
/// How many tests may need a second try.
const MAX_FLAKY: usize = 2;
/// How often each test that the change adds or touches runs, and how often all of them together:
/// a change of many tests runs each of them less often.
const REPEATS: usize = 20;
const ALL_REPEATS: usize = 200;
/// The test that fails if this variable is set, and so proves that a failure reaches the report.
const CANARY: (&str, &str) = (
    "REDRIVE_CANARY",
    "tidy::canary::a_failure_reaches_the_report",
);
/// How long the gate should take at most, from an empty target folder.
const GATE_LIMIT: Duration = Duration::from_mins(12);

#[derive(Debug, Args)]
pub(crate) struct TestOptions {
    /// Run the deep suite: all tests, also on the oldest and newest PostgreSQL, all chaos scenarios, live dashboards,
    /// more schedules of the models, and package builds
    #[arg(long)]
    full: bool,
    /// Run only what the files that differ from main need
    #[arg(long, conflicts_with_all = ["full", "only"])]
    changed: bool,
    /// Run the integration tests and a minute of chaos on these versions of PostgreSQL instead,
    /// such as 14,15,16,17,18
    #[arg(long, value_name = "MAJOR,...", value_delimiter = ',', conflicts_with_all = ["full", "only", "changed"])]
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
    /// What every landing must pass.
    Gate,
    /// Everything, which no landing waits for.
    Deep,
}

/// A step of the suite.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Step {
    /// Programs that the other steps need, installed if they are missing
    Tools,
    /// Formatting of the code
    Format,
    /// Spelling of code and documents
    Spelling,
    /// Clippy without warnings
    Lint,
    /// Generated files are up to date
    Generated,
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
    /// Five scenarios of faults under load; --full runs all, with rounds and mutants
    Chaos,
    /// Bans, licenses, sources and advisories of dependencies; only with --full
    Deny,
    /// Contents of the published packages; --full builds them
    Package,
}

/// Runs all steps in order, also after a failure, and ends with one list of the failures.
pub(crate) fn run(options: &TestOptions, interrupt: &Interrupt) -> Result<()> {
    let root = workspace()?;
    let start = Instant::now();
    let suite = if options.full {
        Suite::Deep
    } else {
        Suite::Gate
    };
    let evidence = target_folder(&root).join("gate");
    fs::create_dir_all(&evidence)
        .with_context(|| format!("cannot create {}", evidence.display()))?;
    let runner = Runner {
        interrupt,
        changes: Changes::since_main(&root, interrupt),
        root,
        suite,
        only_changed: options.changed,
        arguments: &options.runner,
        server: OnceLock::new(),
        evidence,
    };
    let tasks = runner.tasks(options)?;
    let mut times = Vec::new();
    let mut failures = Vec::new();
    let mut number = 0;
    let shares = |task: &Task| suite == Suite::Gate && task.shares_the_machine();
    for group in tasks.chunk_by(|one, next| shares(one) && shares(next)) {
        let names: Vec<String> = group.iter().map(|task| task.name()).collect();
        number += group.len();
        println!("\n━━━ {number}/{} {}", tasks.len(), names.join(", "));
        for (task, (time, result)) in group.iter().zip(runner.run_group(group)) {
            interrupt.check()?;
            let remark = result.unwrap_or_else(|error| {
                failures.push(format!(
                    "{}: {error:#}\n    to repeat it: cargo xtask test {}",
                    task.name(),
                    task.options(suite)
                ));
                "FAILED".to_owned()
            });
            times.push((time, task.name(), remark));
        }
    }
    let evidence = runner.keep_log(!failures.is_empty());
    // Stopping the server takes time, too.
    drop(runner);
    let total = start.elapsed();
    println!("\n━━━ {} steps in {}", tasks.len(), seconds(total));
    for (time, name, remark) in &times {
        println!("{:>14}  {name:<13}  {remark}", seconds(*time));
    }
    if suite == Suite::Gate && total > GATE_LIMIT {
        times.sort_by_key(|(time, ..)| std::cmp::Reverse(*time));
        let longest: Vec<&str> = times.iter().take(5).map(|(_, name, _)| &**name).collect();
        println!(
            "warning: longer than {}; most of it: {}",
            seconds(GATE_LIMIT),
            longest.join(", ")
        );
    }
    if failures.is_empty() {
        println!("\n━━━ all passed");
        return Ok(());
    }
    bail!(
        "{} of {} steps failed; reports and logs: {}\n{}",
        failures.len(),
        tasks.len(),
        evidence.display(),
        failures.join("\n")
    )
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

    /// Whether it can run next to others of the kind in the gate, because it waits for much of its time.
    fn shares_the_machine(self) -> bool {
        use Step::{Alerts, Chaos, Dashboards, DocTests, Docs, Package};
        let light = [DocTests, Docs, Alerts, Dashboards, Chaos, Package];
        matches!(self, Task::Step(step) if light.contains(&step))
    }

    /// Returns the options that run only this task.
    fn options(self, suite: Suite) -> String {
        match (self, suite) {
            (Task::Step(step), Suite::Gate) => format!("--only {}", step.name()),
            (Task::Step(step), Suite::Deep) => format!("--full --only {}", step.name()),
            (Task::Version(major), _) => format!("--postgres {major}"),
        }
    }
}

impl Step {
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
    /// What differs from main; `None` on main itself.
    changes: Option<Changes>,
    /// Whether to run only what these changes need.
    only_changed: bool,
    arguments: &'a [String],
    /// Started by the first command that needs it.
    server: OnceLock<Result<Cluster>>,
    /// The folder for reports and logs.
    evidence: PathBuf,
}

/// The database that the examples in the documentation share.
const EXAMPLES: &str = "doctest";

impl Runner<'_> {
    /// Returns what to run, in this order.
    fn tasks(&self, options: &TestOptions) -> Result<Vec<Task>> {
        if !options.postgres.is_empty() {
            return Ok(options
                .postgres
                .iter()
                .copied()
                .map(Task::Version)
                .collect());
        }
        if !options.only.is_empty() {
            return Ok(options.only.iter().copied().map(Task::Step).collect());
        }
        let steps = Step::value_variants().iter().copied();
        let steps = steps.filter(|step| {
            let is_known = *step != Step::Deny || self.suite == Suite::Deep;
            is_known && (!self.only_changed || self.is_needed(*step))
        });
        let mut tasks: Vec<_> = steps.map(Task::Step).collect();
        if self.suite == Suite::Deep {
            let default = Binaries::find(self.interrupt)?;
            let others = [OLDEST, NEWEST].into_iter();
            let others = others.filter(|major| !default.is_major(*major));
            tasks.extend(others.map(Task::Version));
        }
        Ok(tasks)
    }

    /// Whether the changes concern a step.
    fn is_needed(&self, step: Step) -> bool {
        let touches = |folders: &[&str]| {
            let changes = self.changes.as_ref();
            changes.is_some_and(|changes| changes.touches(folders))
        };
        match step {
            Step::Format | Step::Spelling | Step::Lint | Step::Generated | Step::Tests => {
                self.changes.is_some()
            }
            Step::Alerts => touches(&["alerts/"]),
            Step::Dashboards => touches(&[
                "alerts/",
                "grafana/",
                "crates/redrive/src/metrics/catalogue",
            ]),
            Step::Tools
            | Step::DocTests
            | Step::Docs
            | Step::Chaos
            | Step::Deny
            | Step::Package => false,
        }
    }

    /// Runs tasks, several of them side by side. Returns for each its time and a remark for the report,
    /// which may be empty.
    fn run_group(&self, group: &[Task]) -> Vec<(Duration, Result<String>)> {
        let end = |task: Task, start: Instant, result: Result<String>| {
            let time = start.elapsed();
            let how = if result.is_ok() { "ok" } else { "FAILED" };
            println!("    {} {how}, {}", task.name(), seconds(time));
            (time, result)
        };
        let start = Instant::now();
        thread::scope(|scope| {
            let runs: Vec<_> = group
                .iter()
                .map(|task| {
                    scope.spawn(move || match *task {
                        Task::Step(step) => end(*task, start, self.run_step(step)),
                        Task::Version(major) => end(*task, start, self.run_on(major)),
                    })
                })
                .collect();
            let joined = |run: thread::ScopedJoinHandle<'_, _>| {
                run.join()
                    .unwrap_or_else(|_| (start.elapsed(), Err(anyhow!("its thread panicked"))))
            };
            runs.into_iter().map(joined).collect()
        })
    }

    fn run_step(&self, step: Step) -> Result<String> {
        match step {
            Step::Tools => self.install_tools()?,
            Step::Format => self.succeed(&mut cargo(["fmt", "--all", "--check"]))?,
            Step::Spelling => {
                self.succeed(&mut Command::new(typos(&self.root, self.interrupt)?))?;
            }
            Step::Lint => self.succeed(
                cargo(["clippy", "--locked", "--workspace", "--all-targets"]).args([
                    "--all-features",
                    "--",
                    "-D",
                    "warnings",
                ]),
            )?,
            Step::Generated => generate::check(&self.root, self.interrupt)?,
            Step::Tests => return self.run_tests(),
            Step::DocTests => {
                let mut tests = cargo(["test", "--locked", "--workspace", "--all-features"]);
                // All packages, as for the other tests: with others, the dependencies have other features and
                // are compiled again.
                tests.args(["--doc", "--no-fail-fast"]);
                // Examples share a database, and some act on all letters of a queue.
                tests.args(["--", "--test-threads=1"]);
                self.succeed(self.served(&mut tests)?)?;
            }
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
            Step::Chaos => chaos::check(self.suite, self.seed(), self.interrupt)?,
            Step::Deny => return deny::check(self),
            Step::Package => package::check(self)?,
        }
        Ok(String::new())
    }

    /// Installs what is missing, and names all that could not be installed.
    fn install_tools(&self) -> Result<()> {
        let programs = [PROMTOOL, PGBOUNCER, FAKETIME, NODE, NPM];
        let found = programs.map(|program| program.find(self.interrupt).map(drop));
        let others = [
            typos(&self.root, self.interrupt).map(drop),
            Checks::prepare(&self.root, self.interrupt).map(drop),
            require_nextest(self.interrupt),
        ];
        let missing: Vec<String> = found
            .into_iter()
            .chain(others)
            .filter_map(|result| Some(format!("{:#}", result.err()?)))
            .collect();
        ensure!(missing.is_empty(), "{}", missing.join("\n"));
        Ok(())
    }

    /// Runs the tests of the workspace and repeats those that the change touches. Without a filter,
    /// a test that fails on purpose must fail first.
    fn run_tests(&self) -> Result<String> {
        let mut tests = self.tests()?;
        let touched = match &self.changes {
            Some(changes) if self.arguments.is_empty() => changes.tests(&self.root)?,
            _ => BTreeSet::new(),
        };
        if self.arguments.is_empty() {
            self.prove_canary()?;
        }
        if self.only_changed {
            let changes = self.changes.as_ref().context("nothing differs from main")?;
            tests.args(["--filter-expr", &changes.filter(&self.root)?]);
        }
        let remark = self.judge(self.served(tests.args(self.arguments))?)?;
        let repeats = (ALL_REPEATS / touched.len().max(1)).min(REPEATS);
        if touched.is_empty() || repeats < 2 {
            return Ok(remark);
        }
        let names: Vec<String> = touched.iter().map(|name| exactly(name)).collect();
        let mut repeated = self.tests()?;
        repeated
            .args(["--retries", "0", "--stress-count", &repeats.to_string()])
            .args(["--no-tests", "pass", "--filter-expr", &names.join(" or ")]);
        self.succeed(self.served(&mut repeated)?).with_context(|| {
            format!("one of the tests that this change touches failed in {repeats} runs")
        })?;
        Ok(format!(
            "{remark}; {} touched tests {repeats} times each",
            touched.len()
        ))
    }

    /// Runs a test that fails on purpose: a gate that cannot be red proves nothing.
    fn prove_canary(&self) -> Result<()> {
        let mut canary = self.tests()?;
        canary
            .args(["--filter-expr", &format!("test(={})", CANARY.1)])
            .env(CANARY.0, "1");
        println!("    the next failure is intended");
        let status = self
            .interrupt
            .run(self.served(&mut canary)?.current_dir(&self.root))?;
        let results = self.results()?;
        let failed = results
            .failed
            .iter()
            .any(|failure| failure.test == CANARY.1);
        ensure!(
            failed && !status.success(),
            "the test `{}` must fail, but it did not",
            CANARY.1
        );
        Ok(())
    }

    /// Runs the test runner and reads its report. Returns a remark.
    fn judge(&self, tests: &mut Command) -> Result<String> {
        let report = self.report();
        if report.exists() {
            fs::remove_file(&report)
                .with_context(|| format!("cannot remove {}", report.display()))?;
        }
        let run = self.succeed(tests);
        if !report.exists() {
            // It could not be built, or no test ran.
            return run.map(|()| String::new());
        }
        let results = self.results()?;
        let kept = self.evidence.join("junit.xml");
        fs::copy(&report, &kept).with_context(|| format!("cannot write {}", kept.display()))?;
        for failure in &results.flaky {
            println!("    FLAKY {}", describe(failure));
        }
        let failed: Vec<String> = results.failed.iter().map(describe).collect();
        ensure!(
            failed.is_empty(),
            "{} of {} tests failed\n{}",
            failed.len(),
            results.count,
            failed.join("\n")
        );
        run?;
        let flaky: Vec<&str> = results.flaky.iter().map(|flaky| &*flaky.test).collect();
        ensure!(
            flaky.len() <= MAX_FLAKY,
            "{} tests passed only at the second try: {}",
            flaky.len(),
            flaky.join(", ")
        );
        Ok(match flaky.len() {
            0 => format!("{} tests", results.count),
            count => format!(
                "{} tests, FLAKY {count}: {}",
                results.count,
                flaky.join(", ")
            ),
        })
    }

    /// Runs the integration tests on a major version of PostgreSQL and, without a filter, a minute
    /// of chaos.
    fn run_on(&self, major: u32) -> Result<String> {
        let binaries = Binaries::of_version(major, self.interrupt)?;
        let server = start_server(&binaries, self.interrupt)?;
        // Tests of the sources do not depend on the server.
        let mut tests = self.tests()?;
        tests.args(["--test", INTEGRATION]).args(self.arguments);
        tests.args(["--", "--skip", "tidy::"]);
        // npm has the server alone.
        let has_dump = binaries.folder().join("pg_dump").is_file();
        if !has_dump {
            tests.args(["--skip", "db::restore::"]);
        }
        let remark = self.judge(served_by(&server, &mut tests))?;
        drop(server);
        if self.arguments.is_empty() {
            chaos::check_version(&binaries, self.interrupt)?;
        }
        let left_out = match has_dump {
            true => "",
            false => "; restores NOT tested, because there is no pg_dump",
        };
        Ok(format!("{}: {remark}{left_out}", binaries.version()))
    }

    /// The test runner.
    ///
    /// Always of the whole workspace: for one package, cargo selects other features of some dependencies and builds
    /// nearly everything again.
    fn tests(&self) -> Result<Command> {
        let mut tests = cargo([
            "nextest",
            "run",
            "--locked",
            "--workspace",
            "--all-features",
        ]);
        tests.args(["--profile", self.profile()]);
        if self.suite == Suite::Gate {
            tests.env(GATE_SCHEDULES.0, GATE_SCHEDULES.1);
        }
        // Tests wait for the server for a third of their time.
        let threads = thread::available_parallelism()?.get() * TEST_THREADS_PER_CORE;
        tests.env("NEXTEST_TEST_THREADS", threads.to_string());
        tests.envs(for_tests(self.interrupt)?);
        Ok(tests)
    }

    /// The profile of the test runner. A filter of the user selects from all tests.
    fn profile(&self) -> &'static str {
        match self.suite {
            Suite::Gate if self.arguments.is_empty() => "gate",
            Suite::Gate | Suite::Deep => "deep",
        }
    }

    /// The report of the last run of the test runner.
    fn report(&self) -> PathBuf {
        // The runner's store, which does not follow `CARGO_TARGET_DIR`.
        let folder = self.root.join("target/nextest");
        folder.join(self.profile()).join("junit.xml")
    }

    fn results(&self) -> Result<Results> {
        Results::read(&self.report())
    }

    /// Makes a command use the server of the tests.
    fn served<'c>(&self, command: &'c mut Command) -> Result<&'c mut Command> {
        let start = || start_server(&Binaries::find(self.interrupt)?, self.interrupt);
        match self.server.get_or_init(start) {
            Ok(server) => Ok(served_by(server, command)),
            Err(error) => bail!("{error:#}"),
        }
    }

    /// Copies the server's log to the evidence after a failure. Returns the folder.
    fn keep_log(&self, has_failed: bool) -> PathBuf {
        if let (true, Some(Ok(server))) = (has_failed, self.server.get()) {
            let kept = self.evidence.join("postgresql.log");
            if let Err(error) = fs::copy(server.log(), &kept) {
                println!("    cannot keep the server's log: {error}");
            }
        }
        self.evidence.clone()
    }

    /// A number that the commit decides.
    fn seed(&self) -> u64 {
        let commit = git(
            &self.root,
            &["rev-parse", "--short=8", "HEAD"],
            self.interrupt,
        );
        commit
            .and_then(|commit| Ok(u64::from_str_radix(commit.trim(), 16)?))
            .unwrap_or(1)
    }

    /// Runs a command in the root of the workspace. It must succeed.
    fn succeed(&self, command: &mut Command) -> Result<()> {
        self.interrupt.succeed(command.current_dir(&self.root))
    }
}

/// Without nextest, cargo would run another suite.
fn require_nextest(interrupt: &Interrupt) -> Result<()> {
    interrupt
        .stdout(&mut cargo(["nextest", "--version"]), Duration::from_secs(30))
        .map(drop)
        .context(
            "cargo-nextest is missing; install it: cargo install --locked cargo-nextest, or a binary from https://nexte.st",
        )
}

/// A failed test with its first lines and the command that repeats it.
fn describe(failure: &Failure) -> String {
    format!(
        "{}\n        {}\n        cargo xtask test --only tests -- {}",
        failure.test,
        failure.first_lines.join("\n        "),
        failure.test
    )
}

/// Starts the PostgreSQL of the tests.
fn start_server(binaries: &Binaries, interrupt: &Interrupt) -> Result<Cluster> {
    let cluster = Cluster::start(binaries, Durability::Throwaway, interrupt)?;
    let superuser = cluster.url("postgres");
    println!("    PostgreSQL {} at {superuser}", binaries.version());
    cluster.create_database(EXAMPLES)?;
    Ok(cluster)
}

/// Makes a command use a server. Tests create their own databases.
fn served_by<'c>(server: &Cluster, command: &'c mut Command) -> &'c mut Command {
    command.env("REDRIVE_TEST_DATABASE_URL", server.url("postgres"));
    // Overrides the caller's variable, so that no test touches the caller's database.
    command.env("DATABASE_URL", server.url(EXAMPLES))
}

/// `1.2 s` or `1 min 01 s`.
fn seconds(time: Duration) -> String {
    if time.as_secs() < 60 {
        format!("{:.1} s", time.as_secs_f64())
    } else {
        format!("{} min {:02} s", time.as_secs() / 60, time.as_secs() % 60)
    }
}
