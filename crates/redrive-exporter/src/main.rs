//! The program `redrive-exporter`: everything is in the library crate, so that tests can drive it.

use std::process::ExitCode;

fn main() -> ExitCode {
    redrive_exporter::main()
}
