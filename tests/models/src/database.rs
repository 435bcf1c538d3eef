//! The database of the models: sessions of its server, and lanes over them.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::error::{Error, Result};
use crate::lane::{Between, Lane, Source};
use crate::pooler::Pooler;
use crate::server::Server;
use crate::session::Session;
use crate::stuck::Stuck;

/// How long a call may take.
pub(crate) const CALL_TIMEOUT: Duration = Duration::from_secs(5);

#[derive(Clone)]
pub struct Database(Arc<Server>);

impl Database {
    pub(crate) fn of(server: &Arc<Server>) -> Database {
        Database(Arc::clone(server))
    }

    pub(crate) fn connections(&self) -> u32 {
        100
    }

    pub(crate) fn stands_behind(&self) -> Pooler {
        Pooler::Session
    }

    pub(crate) fn call_timeout(&self) -> Duration {
        CALL_TIMEOUT
    }

    pub(crate) fn connect_timeout(&self) -> Duration {
        CALL_TIMEOUT
    }

    pub(crate) fn check_schema(&self) -> Result<()> {
        Ok(())
    }

    pub(crate) fn session(&self) -> Result<Session> {
        self.source().session()
    }

    pub(crate) fn hold(&self, name: &str) -> Lane {
        Lane::new(name, self.source(), Between::Hold)
    }

    pub(crate) fn call<T: Send + 'static>(
        &self,
        doing: &str,
        work: impl FnOnce(&mut Session) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        Lane::new("redrive-call", self.source(), Between::GiveBack).call(doing, CALL_TIMEOUT, work)
    }

    fn source(&self) -> Source {
        let server = Arc::clone(&self.0);
        Source::new(Stuck::default(), move || match server.is_away() {
            true => Err(Error::unavailable("could not connect to the database")),
            false => Ok(Session::new(Arc::clone(&server))),
        })
    }
}

impl fmt::Debug for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Database")
    }
}
