//! The library's pool, which is replaced when abandoned calls hold too many of its connections.
//!
//! The connection of an abandoned call returns to the pool when the server answers or the
//! connection breaks. Behind a network that drops packets silently, neither happens, and the pool
//! would run out of connections.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use r2d2::Pool;
use scheduled_thread_pool::{OnPoolDropBehavior, ScheduledThreadPool};

use crate::db::abandoned::AbandonedCalls;
use crate::db::caller::{Deadlines, SessionSource};
use crate::db::connector::Connector;
use crate::db::session::Session;
use crate::db::spawn::refused;
use crate::error::{Error, Result};
use crate::job::caught::caught;

/// The number of connections opened in parallel.
const THREADS: usize = 3;

/// A pool that can be replaced by a new one.
pub(crate) struct ReplaceablePool {
    connector: Connector,
    connections: u32,
    timeout: Duration,
    abandoned: AbandonedCalls,
    current: Mutex<CurrentPool>,
}

/// The pool that is used now.
struct CurrentPool {
    pool: Pool<Connector>,
    /// Calls abandoned before this pool was opened. They hold none of its connections.
    abandoned_before: usize,
}

impl ReplaceablePool {
    pub(crate) fn new(
        connector: Connector,
        connections: u32,
        timeout: Duration,
    ) -> Result<ReplaceablePool> {
        let pool = ReplaceablePool {
            current: Mutex::new(CurrentPool {
                pool: open(&connector, connections, timeout)?,
                abandoned_before: 0,
            }),
            abandoned: AbandonedCalls::default(),
            connector,
            connections,
            timeout,
        };
        // The pool closes a connection that is idle for long; the connector would keep it.
        drop(pool.session(timeout)?);
        Ok(pool)
    }

    /// Returns the source of sessions for calls.
    pub(crate) fn source(self) -> SessionSource {
        let deadlines = match self.connector.can_have_deadlines() {
            true => Deadlines::ByConnection,
            false => Deadlines::ByThread,
        };
        SessionSource::new(self.abandoned.clone(), deadlines, move |wait| {
            self.session(wait)
        })
    }

    fn session(&self, wait: Duration) -> Result<Session> {
        let connection = self
            .pool()?
            .get_timeout(wait.min(self.timeout))
            .map_err(|error| self.no_connection(error))?;
        Ok(Session::new(Box::new(connection)))
    }

    /// Says why there is no connection. The pool only says that there was none in time.
    fn no_connection(&self, error: r2d2::Error) -> Error {
        let none = Error::unavailable("could not get a connection to the database");
        match self.connector.trouble() {
            Some(trouble) if trouble.needs_pooler_setting() => trouble,
            Some(trouble) => none.caused_by(trouble),
            None => none.caused_by(error),
        }
    }

    /// Returns the pool to use. A replaced pool is dropped with its last connection.
    fn pool(&self) -> Result<Pool<Connector>> {
        // A panic cannot leave the pool and the number inconsistent.
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        let abandoned = self.abandoned.calls();
        current.abandoned_before = current.abandoned_before.min(abandoned);
        let state = current.pool.state();
        let room = self.connections.saturating_sub(state.connections) + state.idle_connections;
        if is_used_up(self.connections, room, abandoned - current.abandoned_before) {
            log::warn!(
                "{abandoned} calls to the database were never answered and hold their connections; \
                 opening a new pool"
            );
            *current = CurrentPool {
                pool: open(&self.connector, self.connections, self.timeout)?,
                abandoned_before: abandoned,
            };
        }
        Ok(current.pool.clone())
    }
}

/// Whether to replace a pool: it has no room, and abandoned calls hold at least a quarter of its
/// connections.
fn is_used_up(connections: u32, room: u32, abandoned: usize) -> bool {
    room == 0 && abandoned >= connections.div_ceil(4) as usize
}

fn open(connector: &Connector, connections: u32, timeout: Duration) -> Result<Pool<Connector>> {
    // The pool panics if the host refuses one.
    let threads = caught(|| {
        // These threads end with the pool instead of with its last scheduled job.
        ScheduledThreadPool::builder()
            .num_threads(THREADS)
            .thread_name_pattern("redrive-pool-{}")
            .on_drop_behavior(OnPoolDropBehavior::DiscardPendingScheduled)
            .build()
    });
    let threads = threads.map_err(|_| refused("start the threads of a pool"))?;
    Ok(Pool::builder()
        .thread_pool(Arc::new(threads))
        .max_size(connections)
        .min_idle(Some(0))
        .connection_timeout(timeout)
        // A broken connection shows at its next use. Testing first would double the round trips.
        .test_on_check_out(false)
        .error_handler(Box::new(QuietErrors))
        .build_unchecked(connector.clone()))
}

/// Logs connection errors of the pool at debug level. The call that needed the connection reports
/// them.
#[derive(Debug)]
struct QuietErrors;

impl r2d2::HandleError<Error> for QuietErrors {
    fn handle_error(&self, error: Error) {
        log::debug!("could not open a connection: {error:#}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pool_is_replaced_when_abandoned_calls_leave_no_room() {
        for (connections, room, abandoned, replaced) in [
            (10, 0, 0, false),
            (10, 0, 2, false),
            (10, 0, 3, true),
            (10, 1, 9, false),
            (4, 0, 1, true),
            (1, 0, 1, true),
            (1, 1, 0, false),
        ] {
            let is = is_used_up(connections, room, abandoned);
            assert_eq!(is, replaced, "{connections} {room} {abandoned}");
        }
    }
}
