//! Retries calls while the database is unavailable.

use std::time::Duration;

use crate::error::{Error, Result};
use crate::sync::{Instant, thread};
use crate::worker::state::State;

/// The first and the longest pause after a database error.
const PAUSE: Duration = Duration::from_millis(50);
const MAX_PAUSE: Duration = Duration::from_secs(2);
/// How long a call may take that begins when the worker must end.
const LAST_CALL: Duration = Duration::from_millis(200);

/// Retries a call with exponential backoff while its error is worth it, until `until`. A stopping worker gives up sooner.
pub(crate) fn retry<T>(
    state: &State,
    until: Instant,
    is_worth_it: impl Fn(&Error) -> bool,
    mut call: impl FnMut() -> Result<T>,
) -> Result<T> {
    let mut pause = PAUSE;
    let mut until = until;
    loop {
        let error = match call() {
            Err(error) if is_worth_it(&error) => error,
            answer => return answer,
        };
        let now = Instant::now();
        if state.shared.stopping.is_set() {
            until = until.min(now + MAX_PAUSE);
        }
        if now + pause >= until {
            return Err(error);
        }
        let pause_time = pause.mul_f64(0.5 + fastrand::f64() / 2.0);
        state.report_error(&error, pause_time);
        thread::sleep(pause_time);
        pause = (pause * 2).min(MAX_PAUSE);
    }
}

/// Returns the deadline of a call. In a worker that ends, it has a moment at most.
pub(crate) fn call_timeout(state: &State) -> Duration {
    let usual = state.config.queue.database().call_timeout();
    let left = |end_by: &Instant| end_by.saturating_duration_since(Instant::now());
    match state.shared.end_by.get().map(left) {
        Some(left) => usual.min(left.max(LAST_CALL)),
        None => usual,
    }
}
