//! Calls of one statement.

use std::time::Duration;

use crate::sync::Row;

use crate::db::column::Given;
use crate::db::database::Database;
use crate::db::row::{FromRow, only, read_all};
use crate::db::session::Session;
use crate::db::sql::{Parameter, Sql};
use crate::error::Result;

/// Runs single statements, each as one call with a deadline.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ask<'a> {
    db: &'a Database,
    deadline: Duration,
}

impl Database {
    /// Returns what runs statements with the usual deadline.
    pub(crate) fn ask(&self) -> Ask<'_> {
        let deadline = self.call_timeout();
        Ask { db: self, deadline }
    }

    /// Returns what runs statements with the longer deadline for many rows or bytes.
    pub(crate) fn ask_bulk(&self) -> Ask<'_> {
        let deadline = self.bulk_timeout();
        Ask { db: self, deadline }
    }
}

impl Ask<'_> {
    /// Runs a statement. `doing` names the operation and its subject.
    pub(crate) fn rows(
        self,
        doing: &str,
        sql: &'static Sql,
        parameters: &[&dyn Given],
    ) -> Result<Vec<Row>> {
        let work = rows(doing, sql, parameters);
        self.db.call_within(doing, self.deadline, work)
    }

    /// Returns all rows of a statement.
    pub(crate) fn all<T: FromRow>(
        self,
        doing: &str,
        sql: &'static Sql,
        parameters: &[&dyn Given],
    ) -> Result<Vec<T>> {
        read_all(&self.rows(doing, sql, parameters)?)
    }

    /// Returns the row of a statement that always returns one.
    pub(crate) fn one<T: FromRow>(
        self,
        doing: &str,
        sql: &'static Sql,
        parameters: &[&dyn Given],
    ) -> Result<T> {
        only(doing, &self.rows(doing, sql, parameters)?)
    }

    /// Repeats a statement that returns how many rows it changed, until there are none or the caller wants no more.
    /// Returns their number.
    pub(crate) fn until_none(
        self,
        doing: &str,
        sql: &'static Sql,
        parameters: &[&dyn Given],
    ) -> Result<u64> {
        let mut changed: u64 = 0;
        loop {
            let batch: u64 = self.one(doing, sql, parameters)?;
            changed += batch;
            if batch == 0 || self.db.go_on(changed.into()).is_break() {
                return Ok(changed);
            }
        }
    }
}

/// A call of one statement.
pub(crate) type Call<T = Vec<Row>> = Box<dyn FnOnce(&mut Session) -> Result<T> + Send>;

/// Returns the call of a statement that returns its rows. `doing` names the operation and its subject.
pub(crate) fn rows(doing: &str, sql: &'static Sql, parameters: &[&dyn Given]) -> Call {
    let (doing, mut given) = (doing.to_owned(), Vec::new());
    for parameter in parameters {
        parameter.give(&mut given);
    }
    Box::new(move |session| {
        let parameters = given.iter().map(|given| -> Parameter<'_> { &**given });
        session.query(&doing, sql, &parameters.collect::<Vec<_>>())
    })
}

/// Returns the call of a statement that always returns one row.
pub(crate) fn one<T: FromRow>(
    doing: &str,
    sql: &'static Sql,
    parameters: &[&dyn Given],
) -> Call<T> {
    let (does, rows) = (doing.to_owned(), rows(doing, sql, parameters));
    Box::new(move |session| only(&does, &rows(session)?))
}

/// Returns the call of a statement that returns all rows.
pub(crate) fn all<T: FromRow>(
    doing: &str,
    sql: &'static Sql,
    parameters: &[&dyn Given],
) -> Call<Vec<T>> {
    let rows = rows(doing, sql, parameters);
    Box::new(move |session| read_all(&rows(session)?))
}
