//! The library's own pool, which is replaced when calls that were never answered have used it up.
//!
//! A connection whose call was given up comes back to its pool when the call ends: when the server
//! answers, or the connection breaks. Behind something that keeps dead connections open neither
//! happens, and a pool without a free place would be the end of a worker.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use r2d2::Pool;
use scheduled_thread_pool::{OnPoolDropBehavior, ScheduledThreadPool};

use crate::dial::Dial;
use crate::error::{Error, Result};
use crate::lane::Source;
use crate::session::Session;
use crate::stuck::Stuck;

/// How many connections are opened at a time.
const THREADS: usize = 3;

/// A pool, and how another one like it is made.
pub(crate) struct OwnPool {
    dial: Dial,
    connections: u32,
    patience: Duration,
    stuck: Stuck,
    current: Mutex<Generation>,
}

/// The pool that is used now.
struct Generation {
    pool: Pool<Dial>,
    /// The calls that were stuck already when it was made: they hold nothing of it.
    stuck_before: usize,
}

impl OwnPool {
    pub(crate) fn new(dial: Dial, connections: u32, patience: Duration) -> OwnPool {
        OwnPool {
            current: Mutex::new(Generation {
                pool: open(&dial, connections, patience),
                stuck_before: 0,
            }),
            stuck: Stuck::default(),
            dial,
            connections,
            patience,
        }
    }

    /// Gives its connections to lanes.
    pub(crate) fn source(self) -> Source {
        Source::new(self.stuck.clone(), move || self.session())
    }

    fn session(&self) -> Result<Session> {
        let connection = self.pool().get().map_err(|error| {
            Error::unavailable("could not get a connection to the database").caused_by(error)
        })?;
        Ok(Session::new(Box::new(connection)))
    }

    /// The pool to take a connection from. The old one goes when nobody holds anything of it.
    fn pool(&self) -> Pool<Dial> {
        // A pool and a number are good in any state that a panic could have left them in.
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        let stuck = self.stuck.calls();
        current.stuck_before = current.stuck_before.min(stuck);
        let state = current.pool.state();
        let room = self.connections.saturating_sub(state.connections) + state.idle_connections;
        if is_used_up(self.connections, room, stuck - current.stuck_before) {
            log::warn!(
                "{stuck} calls to the database were never answered and keep their connections; a new \
                 pool takes the place of theirs"
            );
            *current = Generation {
                pool: open(&self.dial, self.connections, self.patience),
                stuck_before: stuck,
            };
        }
        current.pool.clone()
    }
}

/// Whether a pool is to be replaced: there is no room in it, and calls that were given up hold a
/// quarter of its connections, or more.
fn is_used_up(connections: u32, room: u32, stuck: usize) -> bool {
    room == 0 && stuck >= connections.div_ceil(4) as usize
}

fn open(dial: &Dial, connections: u32, patience: Duration) -> Pool<Dial> {
    // The threads that open connections end with the pool, and not when its last chore is due.
    let threads = ScheduledThreadPool::builder()
        .num_threads(THREADS)
        .thread_name_pattern("redrive-pool-{}")
        .on_drop_behavior(OnPoolDropBehavior::DiscardPendingScheduled)
        .build();
    Pool::builder()
        .thread_pool(Arc::new(threads))
        .max_size(connections)
        .min_idle(Some(0))
        .connection_timeout(patience)
        // A broken connection shows at its next use, and that use is repeated or reported;
        // asking first would double the round trips of every call.
        .test_on_check_out(false)
        .error_handler(Box::new(QuietErrors))
        .build_unchecked(dial.clone())
}

/// Connection errors of the pool go to the debug log: the call that needed the connection
/// reports them, once.
#[derive(Debug)]
struct QuietErrors;

impl r2d2::HandleError<Error> for QuietErrors {
    fn handle_error(&self, error: Error) {
        log::debug!("could not open a connection: {error}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pool_is_replaced_when_it_has_no_room_and_stuck_calls_are_why() {
        for (connections, room, stuck, replaced) in [
            (10, 0, 0, false),
            (10, 0, 2, false),
            (10, 0, 3, true),
            (10, 1, 9, false),
            (4, 0, 1, true),
            (1, 0, 1, true),
            (1, 1, 0, false),
        ] {
            let is = is_used_up(connections, room, stuck);
            assert_eq!(is, replaced, "{connections} {room} {stuck}");
        }
    }
}
