#![doc = include_str!("../README.md")]

mod args;
mod capture_line;
mod command;
mod connect;
mod diff;
mod duration;
mod error;
#[cfg(test)]
mod inputs;
mod interrupt;
mod letter;
mod lines;
mod logging;
mod person;
mod program;
mod progress;
mod render;
mod run;
mod shell;
mod spark;
mod table;

use std::ffi::OsString;
use std::io::{self, Write};
use std::process::ExitCode;

use clap::{CommandFactory as _, FromArgMatches as _};

use crate::args::{Arguments, Command};
use crate::error::{Error, Result};
use crate::render::{Looks, clean};

pub use crate::program::Program;

/// Runs one command line, the program's name first, and answers the exit code.
///
/// What was asked for goes to `out`, what is said about it to `err`; log lines and progress bars
/// go to the stderr of the process. A pipe that broke because its reader had enough is no error.
pub fn run(
    args: impl IntoIterator<Item = OsString>,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> ExitCode {
    run_as(&Program::new("redrive"), args, out, err)
}

/// The same with what a program registered.
fn run_as(
    program: &Program,
    args: impl IntoIterator<Item = OsString>,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> ExitCode {
    let mut command = Arguments::command()
        .name(program.name.clone())
        .bin_name(program.name.clone());
    if let Some(version) = &program.version {
        command = command.version(version.clone());
    }
    let parsed = command
        .try_get_matches_from(args)
        .and_then(|matches| Arguments::from_arg_matches(&matches));
    let arguments = match parsed {
        Ok(arguments) => arguments,
        Err(told) => return tell(&told, out, err),
    };
    logging::start(arguments.verbose);
    let mut io = Streams { out, err, program };
    match dispatch(&arguments, &mut io).and_then(|ending| Ok(io.out.flush().map(|()| ending)?)) {
        Ok(Ending::Done) | Err(Error::BrokenPipe) => ExitCode::SUCCESS,
        Ok(Ending::NothingMatched) => ExitCode::from(1),
        Err(error) => {
            // When stderr is gone as well, the exit code is all that is left to tell.
            _ = writeln!(
                io.err,
                "{} {}",
                Looks::of_stderr().error("error:"),
                clean(&error.told())
            );
            ExitCode::from(2)
        }
    }
}

/// Where a command writes to, and for which program.
struct Streams<'a> {
    /// What was asked for.
    out: &'a mut dyn Write,
    /// What is said about it.
    err: &'a mut dyn Write,
    /// What the program registered.
    program: &'a Program,
}

impl Streams<'_> {
    /// Says something to the person, on stderr.
    fn say(&mut self, what: impl AsRef<str>) {
        // Nothing depends on whether anybody hears it.
        _ = writeln!(self.err, "{}", clean(what.as_ref()));
    }
}

/// How a command ended when nothing went wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    /// It did what was asked: 0.
    Done,
    /// Nothing matched, a check failed, or some of what was named could not be done: 1.
    NothingMatched,
}

fn dispatch(arguments: &Arguments, io: &mut Streams<'_>) -> Result<Ending> {
    match &arguments.command {
        Command::Migrate(command) => command.run(arguments, io),
        Command::Enqueue(command) => command.run(arguments, io),
        Command::Work(command) => command.run(arguments, io),
        Command::Stats(command) => command.run(arguments, io),
        Command::Job(command) => command.run(arguments, io),
        Command::Dlq(command) => command.run(arguments, io),
        Command::Breaker(command) => command.run(arguments, io),
        Command::Prune(command) => command.run(arguments, io),
        Command::Redact(command) => command.run(arguments, io),
        Command::Audit(command) => command.run(arguments, io),
    }
}

/// Prints what clap has to say: help and version are answers, the rest is a usage error.
fn tell(told: &clap::Error, out: &mut dyn Write, err: &mut dyn Write) -> ExitCode {
    let text = |looks: &Looks| match looks.colours() {
        true => told.render().ansi().to_string(),
        false => told.render().to_string(),
    };
    let written = if told.use_stderr() {
        err.write_all(text(&Looks::of_stderr()).as_bytes())
    } else {
        out.write_all(text(&Looks::of_stdout()).as_bytes())
            .and_then(|()| out.flush())
    };
    match written {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => ExitCode::from(2),
        _ => ExitCode::from(u8::try_from(told.exit_code()).unwrap_or(2)),
    }
}
