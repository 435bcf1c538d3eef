//! The exporter in a process of its own: the arguments are those of `redrive-exporter`.

use std::process::ExitCode;

fn main() -> ExitCode {
    redrive_exporter::main()
}
