//! The library's pool of connections.

use std::sync::Arc;
use std::time::Duration;

use r2d2::{NopErrorHandler, Pool};
use scheduled_thread_pool::{OnPoolDropBehavior, ScheduledThreadPool};

use crate::db::caller::{Deadlines, SessionSource};
use crate::db::connector::Connector;
use crate::db::pooler::Pooler;
use crate::db::session::Session;
use crate::db::spawn::refused;
use crate::error::{Error, Result};
use crate::job::caught::caught;

/// The number of connections opened in parallel.
const THREADS: usize = 3;

/// Opens a pool and returns the source of its sessions.
pub(crate) fn open(
    connector: Connector,
    pooler: Pooler,
    connections: u32,
    timeout: Duration,
) -> Result<SessionSource> {
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
    let pool = Pool::builder()
        .thread_pool(Arc::new(threads))
        .max_size(connections)
        .min_idle(Some(0))
        .connection_timeout(timeout)
        // A broken connection shows at its next use. Testing first would double the round trips.
        .test_on_check_out(false)
        // The call that needed the connection reports its errors.
        .error_handler(Box::new(NopErrorHandler))
        .build_unchecked(connector.clone());
    let deadlines = match connector.can_have_deadlines() {
        true => Deadlines::ByConnection,
        false => Deadlines::ByThread,
    };
    let source = SessionSource::new(deadlines, move |wait| {
        let connection = pool
            .get_timeout(wait.min(timeout))
            .map_err(|error| no_connection(&connector, error))?;
        Ok(Session::new(Box::new(connection), pooler))
    });
    // The pool closes a connection that is idle for long; the connector would keep it.
    drop(source.session(timeout)?);
    Ok(source)
}

/// Says why there is no connection. The pool only says that there was none in time.
fn no_connection(connector: &Connector, error: r2d2::Error) -> Error {
    let none = Error::unavailable("could not get a connection to the database");
    match connector.trouble() {
        Some(trouble) => none.caused_by(trouble),
        None => none.caused_by(error),
    }
}
