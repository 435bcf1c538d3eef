//! The command line in a process of its own, for tests that kill it: the arguments are those of
//! `redrive`.

use std::io;
use std::process::ExitCode;

fn main() -> ExitCode {
    redrive_cli::run(std::env::args_os(), &mut io::stdout(), &mut io::stderr())
}
