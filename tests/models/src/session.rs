//! A session of the simulated server, with the methods of a real one.

use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use postgres::fallible_iterator::FallibleIterator;
use postgres::types::{ToSql, Type};

use crate::db::row::FromRow;
pub(crate) use crate::db::sql::Parameter;
use crate::db::sql::Sql;
use crate::error::{Error, Result};
use crate::rows::Row;
use crate::server::{QUEUE, Server};
use crate::sync::Instant;

pub(crate) struct Session {
    client: Client,
    pub(crate) listens: bool,
}

impl Session {
    pub(crate) fn new(server: Arc<Server>) -> Session {
        Session {
            client: Client {
                server,
                received: None,
            },
            listens: false,
        }
    }

    pub(crate) fn client(&mut self) -> &mut Client {
        &mut self.client
    }

    pub(crate) fn is_closed(&mut self) -> bool {
        self.client.server.is_unreachable()
    }

    pub(crate) fn answers(&mut self, _: Duration) -> bool {
        !self.is_closed()
    }

    /// Does nothing, because the calls of the models run on threads that can be abandoned. A late
    /// statement of an abandoned thread stands for one that reached the server before the deadline.
    pub(crate) fn set_deadline(&self, _: Option<Instant>) {}

    pub(crate) fn pin(&mut self) -> Result<()> {
        Ok(())
    }

    pub(crate) fn query(
        &mut self,
        doing: &str,
        sql: &'static Sql,
        parameters: &[Parameter<'_>],
    ) -> Result<Vec<Row>> {
        self.client.server.answer(doing, sql.name, parameters)
    }

    pub(crate) fn one<T: FromRow>(
        &mut self,
        doing: &str,
        sql: &'static Sql,
        parameters: &[Parameter<'_>],
    ) -> Result<T> {
        let rows = self.query(doing, sql, parameters)?;
        let row = rows.first().ok_or_else(|| {
            Error::unavailable(format!("could not {doing}: the answer had no row"))
        })?;
        T::from_row(row)
    }

    pub(crate) fn read_committed<T>(
        &mut self,
        _: &str,
        _: &str,
        work: impl FnOnce(&mut Session) -> Result<T>,
    ) -> Result<T> {
        work(self)
    }
}

/// The driver's client, as far as a worker uses it.
pub(crate) struct Client {
    server: Arc<Server>,
    /// The notifications received so far; `None` while it does not listen.
    received: Option<u64>,
}

impl Client {
    /// LISTEN; and a NOTIFY that ends the renewer's wait, which ends by its time here.
    pub(crate) fn batch_execute(&mut self, sql: &str) -> std::result::Result<(), postgres::Error> {
        if sql == "NOTIFY redrive_cancel" {
            return Ok(());
        }
        let is_known = sql.starts_with("LISTEN");
        assert!(is_known, "the model does not implement `{sql}`");
        self.received = Some(self.server.notifications());
        Ok(())
    }

    pub(crate) fn notifications(&mut self) -> Notifications<'_> {
        Notifications(self)
    }

    pub(crate) fn transaction(&mut self) -> std::result::Result<Transaction<'_>, postgres::Error> {
        Ok(Transaction(PhantomData))
    }
}

/// A handler's transaction. No scenario has one.
pub struct Transaction<'a>(PhantomData<&'a mut Client>);

impl Transaction<'_> {
    pub(crate) fn query_typed(
        &mut self,
        text: &str,
        _: &[(&(dyn ToSql + Sync), Type)],
    ) -> std::result::Result<Vec<Row>, postgres::Error> {
        panic!("the model does not implement `{text}` in a transaction")
    }

    pub(crate) fn batch_execute(&mut self, _: &str) -> std::result::Result<(), postgres::Error> {
        Ok(())
    }

    pub(crate) fn commit(self) -> std::result::Result<(), postgres::Error> {
        Ok(())
    }
}

/// The notifications of a client.
pub(crate) struct Notifications<'a>(&'a mut Client);

impl Notifications<'_> {
    pub(crate) fn iter(&mut self) -> Iter<'_> {
        Iter(self.0, Duration::ZERO)
    }

    pub(crate) fn timeout_iter(&mut self, patience: Duration) -> Iter<'_> {
        Iter(self.0, patience)
    }
}

pub(crate) struct Iter<'a>(&'a mut Client, Duration);

impl FallibleIterator for Iter<'_> {
    type Item = Notification;
    type Error = postgres::Error;

    fn next(&mut self) -> std::result::Result<Option<Notification>, postgres::Error> {
        let Some(received) = &mut self.0.received else {
            return Ok(None);
        };
        let next = self.0.server.wait_for_notification(*received, self.1);
        *received += u64::from(next.is_some());
        Ok(next.map(|()| Notification))
    }
}

/// A notification of new jobs.
pub(crate) struct Notification;

impl Notification {
    pub(crate) fn channel(&self) -> &'static str {
        "redrive_ready"
    }

    pub(crate) fn payload(&self) -> &'static str {
        QUEUE
    }
}
