//! The environment of a scenario, and the command line that runs one.

use std::fmt::Display;
use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::process::{Command, ExitCode};

use redrive::Database;
use redrive::postgres::types::FromSql;
use redrive::postgres::{Client, NoTls};

use crate::measurement::head;
use crate::{Measurement, Outcome, Samples};

/// A benchmark.
#[derive(Clone, Copy, Debug)]
pub struct Scenario {
    /// The name on the command line.
    pub name: &'static str,
    /// One sentence that describes it.
    pub what: &'static str,
    /// Runs it on a database with only redrive's schema.
    pub run: fn(&mut Bench) -> Outcome,
}

/// The work of a child process; see [`Bench::child`].
#[derive(Clone, Copy, Debug)]
pub struct Child {
    /// The name on the command line.
    pub name: &'static str,
    /// Runs it with its arguments.
    pub run: fn(&Bench, &[String]) -> Outcome,
}

/// The environment of a scenario.
#[derive(Debug)]
pub struct Bench {
    db: Database,
    url: String,
    /// Whether everything is small, to see whether it works.
    is_quick: bool,
    rows: Option<File>,
}

/// Runs the scenario in the arguments, `NAME [--quick]`, or lists all scenarios.
///
/// `DATABASE_URL` names an empty database. Measurements are printed, and appended as lines of JSON
/// to the file `REDRIVE_BENCH_ROWS`.
pub fn main(scenarios: &[Scenario], children: &[Child]) -> ExitCode {
    let arguments: Vec<String> = std::env::args()
        .skip(1)
        .filter(|argument| argument != "--bench")
        .collect();
    match run(scenarios, children, &arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            print_error(error.as_ref());
            ExitCode::FAILURE
        }
    }
}

/// Prints an error and its causes.
#[expect(clippy::print_stderr, reason = "a command-line program")]
pub fn print_error(error: &(dyn std::error::Error + Send + Sync)) {
    eprintln!("error: {error}");
    let mut cause = error.source();
    while let Some(error) = cause {
        eprintln!("  caused by: {error}");
        cause = error.source();
    }
}

#[expect(clippy::print_stdout, reason = "a command-line program")]
fn run(scenarios: &[Scenario], children: &[Child], arguments: &[String]) -> Outcome {
    let is_quick = arguments.iter().any(|argument| argument == "--quick");
    let mut names = arguments.iter().filter(|word| !word.starts_with("--"));
    let Some(name) = names.next() else {
        for scenario in scenarios {
            println!("{}\t{}", scenario.name, scenario.what);
        }
        return Ok(());
    };
    if let Some(child) = children.iter().find(|child| child.name == name) {
        let others: Vec<String> = names.cloned().collect();
        return (child.run)(&Bench::open(is_quick)?, &others);
    }
    let scenario = scenarios
        .iter()
        .find(|scenario| scenario.name == name)
        .ok_or_else(|| format!("unknown scenario `{name}`; without a name, all are listed"))?;
    let mut bench = Bench::open(is_quick)?;
    bench.db.migrate()?;
    println!("\n{}: {}\n{}", scenario.name, scenario.what, head());
    (scenario.run)(&mut bench)
}

impl Bench {
    fn open(is_quick: bool) -> Outcome<Bench> {
        let url = std::env::var("DATABASE_URL").map_err(
            |_| "set DATABASE_URL to an empty database; the benchmark creates its tables there",
        )?;
        let rows = std::env::var_os("REDRIVE_BENCH_ROWS")
            .map(|path| OpenOptions::new().create(true).append(true).open(path))
            .transpose()?;
        Ok(Bench {
            db: redrive::connect(&url)?,
            url,
            is_quick,
            rows,
        })
    }

    /// The database, migrated.
    pub fn db(&self) -> &Database {
        &self.db
    }

    /// Returns the URL of the database.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Opens a connection to the database.
    pub fn client(&self) -> Outcome<Client> {
        Ok(Client::connect(&self.url, NoTls)?)
    }

    /// Runs statements on a connection of its own.
    pub fn execute(&self, statements: &str) -> Outcome {
        Ok(self.client()?.batch_execute(statements)?)
    }

    /// Returns the only value of a query.
    pub fn ask<T: for<'a> FromSql<'a>>(&self, query: &str) -> Outcome<T> {
        Ok(self.client()?.query_one(query, &[])?.get(0))
    }

    /// Checks that a table, or a part of it, has this number of rows.
    pub fn expect_rows(&self, table: &str, expected: usize) -> Outcome {
        let count: i64 = self.ask(&format!("SELECT count(*) FROM {table}"))?;
        match count == i64::try_from(expected)? {
            true => Ok(()),
            false => Err(format!("{table} has {count} rows instead of {expected}").into()),
        }
    }

    /// Returns a connection with a snapshot, which keeps vacuum from removing dead rows while it is open. It has no
    /// lock on tables of redrive.
    pub fn hold_snapshot(&self) -> Outcome<Client> {
        let mut holder = self.client()?;
        let hold = "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM pg_class";
        holder.batch_execute(hold)?;
        Ok(holder)
    }

    /// Returns `full` for a measurement and `quick` for `--quick`.
    pub fn sized<T>(&self, full: T, quick: T) -> T {
        match self.is_quick {
            true => quick,
            false => full,
        }
    }

    /// Measures the baseline and redrive in turn, and alternates which comes first.
    pub fn by_turns(
        &self,
        rounds: usize,
        mut baseline: impl FnMut() -> Outcome<f64>,
        mut redrive: impl FnMut() -> Outcome<f64>,
    ) -> Outcome<(Samples, Samples)> {
        let (mut baselines, mut all) = (Samples::default(), Samples::default());
        for round in 0..self.sized(rounds, 1) {
            if round % 2 == 0 {
                baselines.push(baseline()?);
                all.push(redrive()?);
            } else {
                all.push(redrive()?);
                baselines.push(baseline()?);
            }
        }
        Ok((baselines, all))
    }

    /// Prints a measurement and appends it to the report.
    #[expect(
        clippy::needless_pass_by_value,
        clippy::print_stdout,
        reason = "a row is made to be printed"
    )]
    pub fn report(&mut self, row: Measurement) -> Outcome {
        println!("{}", row.line());
        if let Some(note) = &row.note {
            println!("    {note}");
        }
        if let Some(rows) = &mut self.rows {
            let mut line = serde_json::to_string(&row)?;
            line.push('\n');
            rows.write_all(line.as_bytes())?;
        }
        Ok(())
    }

    /// Returns a command that runs a [`Child`] on the same database.
    pub fn child(&self, name: &str, arguments: &[&dyn Display]) -> Outcome<Command> {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg(name);
        command.args(arguments.iter().map(ToString::to_string));
        if self.is_quick {
            command.arg("--quick");
        }
        command.env("DATABASE_URL", &self.url);
        Ok(command)
    }
}
