//! Waiting: the only place where a test pauses.

use std::thread;
use std::time::{Duration, Instant};

use postgres::Client;

use crate::read::scalar;

/// The deadline of a wait. Only a bug or an overloaded machine takes this long.
pub const SOON: Duration = Duration::from_mins(1);

/// An hour.
pub const HOUR: Duration = Duration::from_hours(1);

/// A day.
pub const DAY: Duration = Duration::from_hours(24);

/// The pause between two checks.
const PAUSE: Duration = Duration::from_millis(3);

/// Repeats a call until it succeeds. For calls with short deadlines, which a busy machine may miss.
#[track_caller]
pub fn eventually<T, E>(what: &str, mut call: impl FnMut() -> Result<T, E>) -> T {
    let mut done = None;
    wait_until(what, SOON, || {
        done = call().ok();
        done.is_some()
    });
    done.expect("the last call succeeded")
}

/// Waits until the condition holds, and panics with `what` after the deadline.
#[track_caller]
pub fn wait_until(what: &str, deadline: Duration, condition: impl FnMut() -> bool) {
    let is_true = comes_true(deadline, condition);
    assert!(is_true, "waited {deadline:?}: {what}");
}

/// Waits until this many sessions of the database wait for a lock.
#[track_caller]
pub fn blocked(client: &mut Client, sessions: i64) {
    let waiting = "SELECT count(*) FROM pg_stat_activity \
                   WHERE datname = current_database() AND wait_event_type = 'Lock'";
    wait_until("sessions to wait for a lock", SOON, || {
        scalar(client, waiting) == sessions
    });
}

/// Waits until the condition holds. Returns whether it does before the deadline.
pub(crate) fn comes_true(deadline: Duration, mut condition: impl FnMut() -> bool) -> bool {
    let begin = Instant::now();
    while !condition() {
        if begin.elapsed() >= deadline {
            return false;
        }
        thread::sleep(PAUSE);
    }
    true
}
