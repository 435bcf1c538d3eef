//! Shell commands as handlers, sinks and validators.
//!
//! A command gets the payload on stdin and the job or letter in its environment. Its exit status
//! is the outcome.

mod kept;
mod exit;
mod process;
mod runner;

pub(crate) use runner::Shell;
