//! Waiting: the only place where a test pauses.

use std::thread;
use std::time::{Duration, Instant};

/// How long a test waits for what must happen. Only a bug, or a machine on its knees, takes
/// this long.
pub const SOON: Duration = Duration::from_mins(1);

/// The pause between two looks.
const PAUSE: Duration = Duration::from_millis(3);

/// Waits until the condition holds; panics with `what` when it does not within the deadline.
#[track_caller]
pub fn wait_until(what: &str, deadline: Duration, mut condition: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !condition() {
        assert!(
            begin.elapsed() < deadline,
            "waited {deadline:?} in vain: {what}"
        );
        thread::sleep(PAUSE);
    }
}
