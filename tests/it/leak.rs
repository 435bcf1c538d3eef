//! Leaks: what a program holds after a thousand faults is what it held before.

use std::process::{Command, Stdio};

use redrive_tests::TestDatabase;
use serde_json::Value;

/// How many faults the handles meet, beside those of the worker.
const FAULTS: u64 = 1000;

/// What may be more than before, whatever the number of faults: a worker has a connection more at
/// one moment than at another, each of which has its threads and descriptors in the cable too.
const THREADS: u64 = 8;
const DESCRIPTORS: u64 = 24;
const CONNECTIONS: u64 = 3;
/// A thousand of anything that is not freed is more than this.
const KILOBYTES: u64 = 12 * 1024;

#[test]
fn a_thousand_faults_leave_nothing_behind() {
    let test = TestDatabase::migrated();
    let output = Command::new(env!("CARGO_BIN_EXE_sufferer"))
        .args([test.url(), &FAULTS.to_string()])
        // Each arena keeps memory of its own for the next thread.
        .env("MALLOC_ARENA_MAX", "2")
        .stderr(Stdio::inherit())
        .output()
        .expect("run the program that suffers");
    assert!(output.status.success(), "{}", output.status);
    let told: Value = serde_json::from_slice(&output.stdout).expect("a line of JSON");
    let faults = told["faults"].as_object().expect("faults by name");
    let met = |fault: &Value| fault.as_u64().expect("a number");
    assert!(faults.values().map(met).sum::<u64>() >= FAULTS, "{told}");
    assert_eq!(faults.len(), 6, "{told}");
    assert!(faults.values().all(|fault| met(fault) >= 100), "{told}");
    assert!(met(&told["worker_cuts"]) >= 20, "{told}");
    for (what, more) in [
        ("threads", THREADS),
        ("descriptors", DESCRIPTORS),
        ("connections", CONNECTIONS),
        ("kilobytes", KILOBYTES),
    ] {
        let (before, after) = (met(&told["before"][what]), met(&told["after"][what]));
        assert!(after <= before + more, "{what}: {told}");
    }
}
