//! What a scenario is given, and how one is chosen on the command line.

use std::fmt::Display;
use std::fs::{File, OpenOptions};
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::path::PathBuf;
use std::process::{Command, ExitCode};

use redrive::Database;
use redrive::postgres::{Client, NoTls};

use crate::row::head;
use crate::{Outcome, Row, Samples};

/// Something that can be measured by its name.
#[derive(Clone, Copy, Debug)]
pub struct Scenario {
    /// What it is called on the command line.
    pub name: &'static str,
    /// What it measures, in one sentence.
    pub what: &'static str,
    /// Measures it. The database is empty but for redrive's schema.
    pub run: fn(&mut Bench) -> Outcome,
}

/// What a scenario has other processes of this program do; see [`Bench::child`].
#[derive(Clone, Copy, Debug)]
pub struct Child {
    /// What it is called.
    pub name: &'static str,
    /// Does it, with the arguments it was given.
    pub run: fn(&Bench, &[String]) -> Outcome,
}

/// What a scenario works with.
#[derive(Debug)]
pub struct Bench {
    db: Database,
    url: String,
    scale: Scale,
    rows: Option<File>,
    log: Option<File>,
    title: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scale {
    Full,
    Quick,
}

/// The program that holds the scenarios: `NAME [--quick]`, or `--list`, or nothing, which lists
/// them for people.
///
/// `DATABASE_URL` names an empty database. Rows are printed, and appended as lines of JSON to the
/// file that `REDRIVE_BENCH_ROWS` names; `REDRIVE_BENCH_LOG` names the log of the server.
pub fn main(scenarios: &[Scenario], children: &[Child]) -> ExitCode {
    let arguments: Vec<String> = std::env::args()
        .skip(1)
        .filter(|argument| argument != "--bench")
        .collect();
    match run(scenarios, children, &arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tell_error(error.as_ref());
            ExitCode::FAILURE
        }
    }
}

#[expect(clippy::print_stderr, reason = "a program that talks to a terminal")]
fn tell_error(error: &(dyn std::error::Error + Send + Sync)) {
    eprintln!("error: {error}");
    let mut cause = error.source();
    while let Some(error) = cause {
        eprintln!("  caused by: {error}");
        cause = error.source();
    }
}

#[expect(clippy::print_stdout, reason = "a program that talks to a terminal")]
fn run(scenarios: &[Scenario], children: &[Child], arguments: &[String]) -> Outcome {
    let quick = arguments.iter().any(|argument| argument == "--quick");
    let mut names = arguments.iter().filter(|word| !word.starts_with("--"));
    let Some(name) = names.next() else {
        for scenario in scenarios {
            println!("{}\t{}", scenario.name, scenario.what);
        }
        return Ok(());
    };
    let scale = match quick {
        true => Scale::Quick,
        false => Scale::Full,
    };
    if let Some(child) = children.iter().find(|child| child.name == name) {
        let others: Vec<String> = names.cloned().collect();
        return (child.run)(&Bench::open(scale)?, &others);
    }
    let scenario = scenarios
        .iter()
        .find(|scenario| scenario.name == name)
        .ok_or_else(|| {
            let known: Vec<&str> = scenarios.iter().map(|scenario| scenario.name).collect();
            format!(
                "there is no scenario `{name}`; there are: {}",
                known.join(", ")
            )
        })?;
    let mut bench = Bench::open(scale)?;
    bench.db.migrate()?;
    println!("\n{}: {}", scenario.name, scenario.what);
    (scenario.run)(&mut bench)
}

impl Bench {
    fn open(scale: Scale) -> Outcome<Bench> {
        let url = std::env::var("DATABASE_URL").map_err(
            |_| "set DATABASE_URL to an empty database: this makes tables of its own there",
        )?;
        let file = |variable: &str| std::env::var_os(variable).map(PathBuf::from);
        let rows = file("REDRIVE_BENCH_ROWS")
            .map(|path| OpenOptions::new().create(true).append(true).open(path))
            .transpose()?;
        let mut log = file("REDRIVE_BENCH_LOG").map(File::open).transpose()?;
        if let Some(log) = &mut log {
            log.seek(SeekFrom::End(0))?;
        }
        Ok(Bench {
            db: redrive::connect(&url)?,
            url,
            scale,
            rows,
            log,
            title: false,
        })
    }

    /// The database, migrated.
    pub fn db(&self) -> &Database {
        &self.db
    }

    /// Its URL.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// A connection of one's own to it.
    ///
    /// # Errors
    /// The driver's.
    pub fn client(&self) -> Outcome<Client> {
        Ok(Client::connect(&self.url, NoTls)?)
    }

    /// One number when it is measured, another when it is only looked whether it runs.
    pub fn sized<T>(&self, full: T, quick: T) -> T {
        match self.scale {
            Scale::Full => full,
            Scale::Quick => quick,
        }
    }

    /// Measures the floor and redrive by turns, and the first of a pair by turns as well.
    ///
    /// # Errors
    /// What they answer.
    pub fn by_turns(
        &self,
        rounds: usize,
        mut floor: impl FnMut() -> Outcome<f64>,
        mut ours: impl FnMut() -> Outcome<f64>,
    ) -> Outcome<(Samples, Samples)> {
        let (mut floors, mut all) = (Samples::new(), Samples::new());
        for round in 0..self.sized(rounds, 1) {
            if round % 2 == 0 {
                floors.push(floor()?);
                all.push(ours()?);
            } else {
                all.push(ours()?);
                floors.push(floor()?);
            }
        }
        Ok((floors, all))
    }

    /// Reports a row.
    ///
    /// # Errors
    /// The file's.
    #[expect(clippy::print_stdout, reason = "a benchmark prints its table")]
    pub fn row(&mut self, row: &Row) -> Outcome {
        if !self.title {
            self.title = true;
            println!("{}", head());
        }
        println!("{}", row.line());
        if let Some(note) = &row.note {
            println!("    {note}");
        }
        if let Some(rows) = &mut self.rows {
            let mut line = serde_json::to_string(row)?;
            line.push('\n');
            rows.write_all(line.as_bytes())?;
        }
        Ok(())
    }

    /// What the server has logged since the scenario began or this was asked last; `None` where
    /// the log is not known.
    ///
    /// # Errors
    /// The file's.
    pub fn server_log(&mut self) -> Outcome<Option<String>> {
        let Some(log) = &mut self.log else {
            return Ok(None);
        };
        let mut bytes = Vec::new();
        log.read_to_end(&mut bytes)?;
        Ok(Some(String::from_utf8_lossy(&bytes).into_owned()))
    }

    /// Another process of this program, on the same database, that does what the [`Child`] of this
    /// name does.
    ///
    /// # Errors
    /// When it is not known which program this is.
    pub fn child(&self, name: &str, arguments: &[&dyn Display]) -> Outcome<Command> {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg(name);
        command.args(arguments.iter().map(ToString::to_string));
        if self.scale == Scale::Quick {
            command.arg("--quick");
        }
        command.env("DATABASE_URL", &self.url);
        Ok(command)
    }
}
