//! Gates: files that hold handlers until the environment lets them finish.
//!
//! A scenario uses them to keep a job running for as long as it needs, on any machine.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

/// How often a held handler checks its gate.
const POLL: Duration = Duration::from_millis(5);

fn of_process(folder: &Path, process: &str) -> PathBuf {
    folder.join(format!("gate-{process}"))
}

fn of_all(folder: &Path) -> PathBuf {
    folder.join("gate")
}

/// Blocks a handler of this process until its gate, or the gate of all, opens.
pub(crate) fn wait(folder: &Path, process: &str) {
    let gates = [of_process(folder, process), of_all(folder)];
    while !gates.iter().any(|gate| gate.exists()) {
        thread::sleep(POLL);
    }
}

/// Lets the held handlers of one process finish.
pub(crate) fn open(folder: &Path, process: &str) {
    File::create(of_process(folder, process)).expect("open a gate");
}

/// Lets all held handlers finish.
pub(crate) fn open_all(folder: &Path) {
    File::create(of_all(folder)).expect("open the gate of all");
}
