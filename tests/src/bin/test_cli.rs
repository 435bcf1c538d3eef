//! The command line as a process for tests that kill it, with the arguments of `redrive`.

use std::process::ExitCode;

fn main() -> ExitCode {
    redrive_cli::Program::new("redrive").main()
}
