#![doc = include_str!("../README.md")]

mod name;
mod error;
mod time;
mod optional;
mod terminal;
mod logging;
mod global;
mod registry;
mod context;
mod subcommands;
mod operator;
mod selection;
mod stop;
mod batches;
mod left_out;
mod prelude;
mod not_done;
mod bulk;
mod ndjson;
mod shell;
mod letter;
mod dlq;
mod jobs;
mod schedule;
mod admin;
mod command;
mod program;
#[cfg(test)]
mod proptests;

use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;

pub use crate::program::Program;

/// Runs one command line, whose first argument is the program name, and returns the exit code.
///
/// Results go to `out` and messages to `err`. Log lines and progress bars go to the stderr of
/// the process. A broken pipe is not an error.
pub fn run(
    args: impl IntoIterator<Item = OsString>,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> ExitCode {
    Program::new("redrive").run(args, out, err)
}
