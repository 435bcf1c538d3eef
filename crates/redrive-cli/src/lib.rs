#![doc = include_str!("../README.md")]

mod name;
mod error;
mod time;
mod optional;
mod terminal;
mod logging;
mod global;
mod program;
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
mod command_line;
#[cfg(test)]
mod proptests;

pub use crate::program::Program;
