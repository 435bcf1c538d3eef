//! The exporter as a process, with the arguments of `redrive-exporter`.

use std::process::ExitCode;

fn main() -> ExitCode {
    redrive_exporter::main()
}
