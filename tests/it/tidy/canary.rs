//! The canary: a failure that the gate must notice.

use std::env;

#[test]
fn a_failure_reaches_the_report() {
    let is_set = env::var_os("REDRIVE_CANARY").is_some();
    assert!(!is_set, "this test fails on purpose if the variable is set");
}
