//! The program `redrive-exporter`. Its code is in the library crate, so that tests can run it.

use std::process::ExitCode;

fn main() -> ExitCode {
    redrive_exporter::main()
}
