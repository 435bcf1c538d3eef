//! Gates: files that hold handlers until the environment lets them finish.
//!
//! A scenario uses them to keep a job running for as long as it needs, on any machine.

use std::fs::File;
use std::path::Path;
use std::thread;
use std::time::Duration;

/// How often a held handler checks its gate.
const POLL: Duration = Duration::from_millis(5);

/// The gate of all processes.
pub(crate) const OF_ALL: &str = "gate";

/// Blocks a handler of this process until its gate, or the gate of all, opens.
pub(crate) fn wait(folder: &Path, process: &str) {
    let gates = [process, OF_ALL].map(|gate| folder.join(gate));
    while !gates.iter().any(|gate| gate.exists()) {
        thread::sleep(POLL);
    }
}

/// Lets the held handlers of one process, or of all, finish.
pub(crate) fn open(folder: &Path, gate: &str) {
    File::create(folder.join(gate)).expect("open a gate");
}
