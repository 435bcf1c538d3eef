//! The command `redrive`: everything is in the library crate, so that tests can drive it.

use std::io::{self, LineWriter};
use std::process::ExitCode;

fn main() -> ExitCode {
    // Not locked: log lines and progress bars write to stderr from other threads.
    redrive_cli::run(
        std::env::args_os(),
        &mut LineWriter::new(io::stdout()),
        &mut io::stderr(),
    )
}
