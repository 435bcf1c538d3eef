//! Trying: calls that are made again while the database is away.

use std::time::Duration;

use crate::error::Result;
use crate::floor::{Instant, thread};
use crate::worker::state::State;

/// The first wait after an error of the database, and the longest.
const PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// Calls again while the database is away, with growing pauses, until the moment given; a worker
/// that is to stop gives up sooner.
pub(crate) fn trying<T>(
    state: &State,
    until: Instant,
    mut call: impl FnMut() -> Result<T>,
) -> Result<T> {
    let mut pause = PAUSE;
    let mut until = until;
    loop {
        let error = match call() {
            Err(error) if error.is_unavailable() => error,
            answer => return answer,
        };
        let now = Instant::now();
        if state.stopping.is_ended() {
            until = until.min(now + LONGEST_PAUSE);
        }
        if now + pause >= until {
            return Err(error);
        }
        log::warn!("queue `{}`: {error}; trying again", state.queue());
        thread::sleep(pause.mul_f64(0.5 + fastrand::f64() / 2.0));
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// How long a call may take.
pub(crate) fn call_timeout(state: &State) -> Duration {
    state.config.queue.database().call_timeout()
}
