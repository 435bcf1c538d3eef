//! Waiting: the only place where a test pauses.

use std::thread;
use std::time::{Duration, Instant};

/// The deadline of a wait. Only a bug or an overloaded machine takes this long.
pub const SOON: Duration = Duration::from_mins(1);

/// The pause between two checks.
const PAUSE: Duration = Duration::from_millis(3);

/// Waits until the condition holds, and panics with `what` after the deadline.
#[track_caller]
pub fn wait_until(what: &str, deadline: Duration, mut condition: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !condition() {
        assert!(begin.elapsed() < deadline, "waited {deadline:?}: {what}");
        thread::sleep(PAUSE);
    }
}
