//! The database of the models: sessions of the simulated server, and callers over them.

use std::fmt;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use crate::db::caller::{DbCaller, Deadlines, SessionSource, SessionUse};
use crate::db::pool_share::PoolShares;
use crate::db::pooler::Pooler;
use crate::error::{Error, Result};
use crate::server::Server;
use crate::session::Session;

/// The timeout of a call.
pub(crate) const CALL_TIMEOUT: Duration = Duration::from_secs(5);

/// What an operation has done so far.
pub(crate) struct BatchProgress;

impl From<u64> for BatchProgress {
    fn from(_: u64) -> BatchProgress {
        BatchProgress
    }
}

#[derive(Clone)]
pub struct Database(Arc<Server>, PoolShares);

impl Database {
    pub(crate) fn of(server: &Arc<Server>) -> Database {
        Database(Arc::clone(server), PoolShares::default())
    }

    pub(crate) fn connections(&self) -> u32 {
        100
    }

    pub(crate) fn workers(&self) -> &PoolShares {
        &self.1
    }

    pub(crate) fn pooler_mode(&self) -> Pooler {
        Pooler::Session
    }

    pub(crate) fn call_timeout(&self) -> Duration {
        CALL_TIMEOUT
    }

    pub(crate) fn bulk_timeout(&self) -> Duration {
        CALL_TIMEOUT
    }

    pub(crate) fn check_schema(&self) -> Result<()> {
        Ok(())
    }

    pub(crate) fn session(&self) -> Result<Session> {
        self.source().session(CALL_TIMEOUT)
    }

    pub(crate) fn caller(&self, name: &str) -> DbCaller {
        DbCaller::new(name, self.source(), SessionUse::Held)
    }

    pub(crate) fn call<T: Send + 'static>(
        &self,
        doing: &str,
        work: impl FnOnce(&mut Session) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        self.call_within(doing, CALL_TIMEOUT, work)
    }

    pub(crate) fn call_within<T: Send + 'static>(
        &self,
        doing: &str,
        deadline: Duration,
        work: impl FnOnce(&mut Session) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        DbCaller::new("redrive-call", self.source(), SessionUse::PerCall)
            .call(doing, deadline, work)
    }

    /// Nobody watches.
    pub(crate) fn go_on(&self, _: BatchProgress) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }

    fn source(&self) -> SessionSource {
        let server = Arc::clone(&self.0);
        SessionSource::new(Deadlines::ByThread, move |_| {
            match server.is_unreachable() {
                true => Err(Error::unavailable("could not connect to the database")),
                false => Ok(Session::new(Arc::clone(&server))),
            }
        })
    }
}

impl fmt::Debug for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Database")
    }
}
