//! The command `redrive`. The code is in the library crate, so that tests can call it.

use std::process::ExitCode;

fn main() -> ExitCode {
    redrive_cli::Program::new("redrive").main()
}
