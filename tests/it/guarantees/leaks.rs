//! Leaks: a thousand faults leave no more threads, descriptors or connections.

use redrive_tests::prelude::*;

/// The faults of the handles, without those of the worker.
const FAULTS: u64 = 1000;

/// The increase allowed for any number of faults: a worker may have one connection more at the
/// second measurement, with its threads and descriptors in the proxy.
const THREADS: u64 = 8;
const DESCRIPTORS: u64 = 24;
const CONNECTIONS: u64 = 3;

#[test]
fn a_thousand_faults_leak_no_threads_or_connections() {
    let test = TestDatabase::migrated();
    let output = Command::new(env!("CARGO_BIN_EXE_fault_loop"))
        .args([test.url(), &FAULTS.to_string()])
        .stderr(Stdio::inherit())
        .output()
        .expect("run the fault loop");
    assert!(output.status.success(), "{}", output.status);
    let report: Value = serde_json::from_slice(&output.stdout).expect("a line of JSON");
    let faults = report["faults"].as_object().expect("faults by name");
    let met = |fault: &Value| fault.as_u64().expect("a number");
    assert!(faults.values().map(met).sum::<u64>() >= FAULTS, "{report}");
    assert_eq!(faults.len(), 6, "{report}");
    assert!(faults.values().all(|fault| met(fault) >= 100), "{report}");
    assert!(met(&report["worker_cuts"]) > 0, "{report}");
    for (what, more) in [
        ("threads", THREADS),
        ("descriptors", DESCRIPTORS),
        ("connections", CONNECTIONS),
    ] {
        let (before, after) = (met(&report["before"][what]), met(&report["after"][what]));
        assert!(after <= before + more, "{what}: {report}");
    }
}
