//! The command line as a process for tests that kill it, with the arguments of `redrive`.

use std::io;
use std::process::ExitCode;

fn main() -> ExitCode {
    redrive_cli::run(std::env::args_os(), &mut io::stdout(), &mut io::stderr())
}
