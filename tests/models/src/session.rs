//! A session of the server of the models, with the methods of a real one.

use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use postgres::fallible_iterator::FallibleIterator;
use postgres::types::{ToSql, Type};

use crate::error::{Error, Result};
use crate::rows::Row;
use crate::server::{News, Server, Told};
pub(crate) use crate::sql::Parameter;
use crate::sql::{self, Sql};

pub(crate) struct Session {
    client: Client,
}

impl Session {
    pub(crate) fn new(server: Arc<Server>) -> Session {
        Session {
            client: Client {
                server,
                heard: None,
            },
        }
    }

    pub(crate) fn client(&mut self) -> &mut Client {
        &mut self.client
    }

    pub(crate) fn is_closed(&mut self) -> bool {
        self.client.server.is_away()
    }

    pub(crate) fn pin(&mut self) -> Result<()> {
        Ok(())
    }

    pub(crate) fn unpin(&mut self) -> Result<()> {
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

    pub(crate) fn query_one(
        &mut self,
        doing: &str,
        sql: &'static Sql,
        parameters: &[Parameter<'_>],
    ) -> Result<Row> {
        let mut rows = self.query(doing, sql, parameters)?;
        rows.pop()
            .ok_or_else(|| Error::unavailable(format!("could not {doing}: the answer had no row")))
    }
}

/// The driver's client, as far as a worker uses it.
pub(crate) struct Client {
    server: Arc<Server>,
    /// The notifications that it has heard. None: it does not listen.
    heard: Option<Told>,
}

impl Client {
    /// LISTEN, and nothing else.
    pub(crate) fn batch_execute(&mut self, sql: &str) -> std::result::Result<(), postgres::Error> {
        assert!(sql.starts_with("LISTEN"), "the model does not know `{sql}`");
        self.heard = Some(self.server.told());
        Ok(())
    }

    pub(crate) fn notifications(&mut self) -> Notifications<'_> {
        Notifications(self)
    }

    pub(crate) fn transaction(&mut self) -> std::result::Result<Transaction<'_>, postgres::Error> {
        Ok(Transaction {
            server: Arc::clone(&self.server),
            session: PhantomData,
        })
    }
}

/// A transaction of a handler: its one statement that matters here takes effect at once, because
/// no scene rolls it back.
pub struct Transaction<'a> {
    server: Arc<Server>,
    session: PhantomData<&'a mut Client>,
}

impl Transaction<'_> {
    pub(crate) fn query_typed(
        &mut self,
        text: &str,
        parameters: &[(&(dyn ToSql + Sync), Type)],
    ) -> std::result::Result<Vec<Row>, postgres::Error> {
        let name = match text {
            _ if text == sql::SETTLE_OWN.text => sql::SETTLE_OWN.name,
            _ => sql::FREE_KEY.name,
        };
        let parameters: Vec<Parameter<'_>> = parameters.iter().map(|(value, _)| *value).collect();
        Ok(self.server.act(name, &parameters))
    }

    pub(crate) fn commit(self) -> std::result::Result<(), postgres::Error> {
        Ok(())
    }
}

/// What was notified.
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
        let Some(heard) = &mut self.0.heard else {
            return Ok(None);
        };
        let Some(news) = self.0.server.wait_to_be_told(*heard, self.1) else {
            return Ok(None);
        };
        match news {
            News::Jobs => heard.jobs += 1,
            News::Breakers => heard.breakers += 1,
        }
        Ok(Some(Notification {
            news,
            payload: self.0.server.queue().to_owned(),
        }))
    }
}

/// That there are jobs, or that a breaker changed.
pub(crate) struct Notification {
    news: News,
    payload: String,
}

impl Notification {
    pub(crate) fn channel(&self) -> &'static str {
        match self.news {
            News::Jobs => "redrive_ready",
            News::Breakers => "redrive_breaker",
        }
    }

    pub(crate) fn payload(&self) -> &str {
        &self.payload
    }
}
