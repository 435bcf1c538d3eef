//! What runs the statements of a claim and of a settle.

use crate::db::session::Session;
use crate::db::sql::{Parameter, Sql};
use crate::error::{Error, Result};
use crate::sync::{Row, Transaction};

/// A session of a worker, or the transaction of a handler or of a test.
pub(crate) trait Run {
    /// Runs a statement. `doing` names the operation and its subject.
    fn run(
        &mut self,
        doing: &str,
        sql: &'static Sql,
        parameters: &[Parameter<'_>],
    ) -> Result<Vec<Row>>;
}

impl Run for Session {
    fn run(
        &mut self,
        doing: &str,
        sql: &'static Sql,
        parameters: &[Parameter<'_>],
    ) -> Result<Vec<Row>> {
        self.query(doing, sql, parameters)
    }
}

impl Run for Transaction<'_> {
    fn run(
        &mut self,
        doing: &str,
        sql: &'static Sql,
        parameters: &[Parameter<'_>],
    ) -> Result<Vec<Row>> {
        self.query_typed(sql.text, &sql.typed(parameters))
            .map_err(|error| Error::from_postgres(doing, error))
    }
}

/// Returns one value of each row, for a parameter that is an array.
pub(crate) fn values_of<'a, R, V>(rows: &'a [R], value: impl FnMut(&'a R) -> V) -> Vec<V> {
    rows.iter().map(value).collect()
}
