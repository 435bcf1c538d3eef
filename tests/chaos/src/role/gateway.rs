//! The gateway that dependent jobs call: it is down at times, for all workers alike.

use std::fs::{self, File};
use std::path::Path;
use std::time::Duration;

use redrive::Failure;

use crate::clock;
use crate::role::Gateway;

/// The dependency of these jobs.
pub(crate) const GATEWAY: &str = "gateway";
/// The dependency of the other jobs, whose outages are too few to open a breaker.
pub(crate) const OTHER_GATEWAY: &str = "another gateway";
/// The outages in a row that open a breaker.
pub(crate) const BREAKER_THRESHOLD: u32 = 5;
/// The gateway is down for the first seconds of each period.
const DOWN: i64 = 7;
const PERIOD: i64 = 25;
/// The files that take it down, for all processes.
const BROKEN: &str = "gateway-broken";
const SHAKEN: &str = "gateway-shaken";

/// The error of a job that found the gateway down.
pub(crate) const NO_ANSWER: &str = "the gateway does not answer";

/// Returns the dependency whose outage has this error. A job that calls the gateway may fail because of the other one.
pub(crate) fn dependency_of(error: Option<&str>) -> &'static str {
    match error {
        Some(NO_ANSWER) => GATEWAY,
        _ => OTHER_GATEWAY,
    }
}

/// Whether the gateway is down now: while a scenario holds it down, and in a part of each period of a round.
pub(super) fn is_down(gateway: Gateway, folder: &Path) -> bool {
    let seconds = clock::now() / 1_000_000;
    let is_in_outage = folder.join(SHAKEN).exists() && seconds % PERIOD < DOWN;
    gateway == Gateway::Shaky && (is_in_outage || folder.join(BROKEN).exists())
}

/// Takes the gateway down.
pub(crate) fn break_down(folder: &Path) {
    File::create(folder.join(BROKEN)).expect("break the gateway");
}

pub(crate) fn mend(folder: &Path) {
    fs::remove_file(folder.join(BROKEN)).expect("mend the gateway");
}

/// Lets the gateway be down at times.
pub(crate) fn shake(folder: &Path) {
    File::create(folder.join(SHAKEN)).expect("shake the gateway");
}

/// The failure of a job that found the gateway down.
pub(super) fn outage() -> Failure {
    Failure::outage(NO_ANSWER)
        .after(Duration::from_millis(200))
        .dependency(GATEWAY)
}
