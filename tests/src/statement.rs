//! The statements of the library, for tests that run a single one, and statements of a test.

use postgres::GenericClient;
use postgres::types::{FromSqlOwned, ToSql};

use crate::rows::Columns;

/// Returns the text of a statement.
pub fn statement(name: &str) -> &'static str {
    let found = redrive::statements().find(|(known, _)| *known == name);
    found
        .unwrap_or_else(|| panic!("no statement is called `{name}`"))
        .1
}

/// Running statements that must succeed.
pub trait Sql {
    /// Runs statements without parameters.
    ///
    /// # Panics
    ///
    /// If one fails.
    fn sql(&mut self, statements: &str);

    /// Runs a statement with parameters.
    ///
    /// # Panics
    ///
    /// If it fails.
    fn change(&mut self, statement: &str, values: &[&(dyn ToSql + Sync)]);

    /// Returns the number of rows of a table of the schema, or of those that meet its condition.
    ///
    /// # Panics
    ///
    /// If they cannot be counted.
    fn count(&mut self, table: &str) -> i64 {
        self.ask(&format!("SELECT count(*) FROM redrive.{table}"), &[])
    }

    /// Returns the first column of a query.
    ///
    /// # Panics
    ///
    /// If it fails.
    fn column<T: FromSqlOwned>(&mut self, query: &str, values: &[&(dyn ToSql + Sync)]) -> Vec<T>;

    /// Returns the rows of a query.
    ///
    /// # Panics
    ///
    /// If it fails.
    fn rows<T: Columns>(&mut self, query: &str, values: &[&(dyn ToSql + Sync)]) -> Vec<T>;

    /// Returns the only row of a query.
    ///
    /// # Panics
    ///
    /// If there is no such row.
    fn row<T: Columns>(&mut self, query: &str, values: &[&(dyn ToSql + Sync)]) -> T;

    /// Returns the first column of the only row of a query.
    ///
    /// # Panics
    ///
    /// If there is no such row.
    fn ask<T: FromSqlOwned>(&mut self, query: &str, values: &[&(dyn ToSql + Sync)]) -> T;
}

impl<C: GenericClient> Sql for C {
    #[track_caller]
    fn sql(&mut self, statements: &str) {
        answered(statements, self.batch_execute(statements));
    }

    #[track_caller]
    fn change(&mut self, statement: &str, values: &[&(dyn ToSql + Sync)]) {
        answered(statement, self.execute(statement, values));
    }

    #[track_caller]
    fn column<T: FromSqlOwned>(&mut self, query: &str, values: &[&(dyn ToSql + Sync)]) -> Vec<T> {
        let rows = answered(query, self.query(query, values));
        rows.iter().map(|row| row.get(0)).collect()
    }

    #[track_caller]
    fn rows<T: Columns>(&mut self, query: &str, values: &[&(dyn ToSql + Sync)]) -> Vec<T> {
        let rows = answered(query, self.query(query, values));
        rows.iter().map(T::of).collect()
    }

    #[track_caller]
    fn row<T: Columns>(&mut self, query: &str, values: &[&(dyn ToSql + Sync)]) -> T {
        T::of(&answered(query, self.query_one(query, values)))
    }

    #[track_caller]
    fn ask<T: FromSqlOwned>(&mut self, query: &str, values: &[&(dyn ToSql + Sync)]) -> T {
        answered(query, self.query_one(query, values)).get(0)
    }
}

#[track_caller]
fn answered<T>(statement: &str, answer: Result<T, postgres::Error>) -> T {
    answer.unwrap_or_else(|error| panic!("{statement}: {error:?}"))
}
