//! The statements of the library, for tests that run a single one, and statements of a test.

use postgres::GenericClient;
use postgres::error::SqlState;
use postgres::types::{FromSqlOwned, ToSql};

use crate::rows::Columns;
use crate::texts::refusal;
use crate::wait::{SOON, wait_until};

/// Returns the text of a statement.
pub fn statement(name: &str) -> &'static str {
    let found = redrive::statements().find(|(known, ..)| *known == name);
    let found = found.unwrap_or_else(|| panic!("no statement is called `{name}`"));
    found.1
}

/// Running statements that must succeed.
pub trait Sql: GenericClient {
    /// Runs statements without parameters.
    #[track_caller]
    fn sql(&mut self, statements: &str) {
        answered(statements, self.batch_execute(statements));
    }

    /// Runs a statement with parameters.
    #[track_caller]
    fn change(&mut self, statement: &str, values: &[&(dyn ToSql + Sync)]) {
        answered(statement, self.execute(statement, values));
    }

    /// Returns the number of rows of a table of the schema, or of those that meet its condition.
    #[track_caller]
    fn count(&mut self, table: &str) -> i64 {
        self.ask(&format!("SELECT count(*) FROM redrive.{table}"), &[])
    }

    /// Waits until this many rows of a table of the schema exist, or meet its condition.
    #[track_caller]
    fn reaches(&mut self, table: &str, rows: i64) {
        wait_until(&format!("{rows} rows: {table}"), SOON, || {
            self.count(table) == rows
        });
    }

    /// Returns the first column of a query.
    #[track_caller]
    fn column<T: FromSqlOwned>(&mut self, query: &str, values: &[&(dyn ToSql + Sync)]) -> Vec<T> {
        let rows = answered(query, self.query(query, values));
        rows.iter().map(|row| row.get(0)).collect()
    }

    /// Returns the rows of a query.
    #[track_caller]
    fn rows<T: Columns>(&mut self, query: &str, values: &[&(dyn ToSql + Sync)]) -> Vec<T> {
        let rows = answered(query, self.query(query, values));
        rows.iter().map(T::of).collect()
    }

    /// Returns the only row of a query.
    #[track_caller]
    fn row<T: Columns>(&mut self, query: &str, values: &[&(dyn ToSql + Sync)]) -> T {
        T::of(&answered(query, self.query_one(query, values)))
    }

    /// Returns the first column of the only row of a query.
    #[track_caller]
    fn ask<T: FromSqlOwned>(&mut self, query: &str, values: &[&(dyn ToSql + Sync)]) -> T {
        answered(query, self.query_one(query, values)).get(0)
    }

    /// Runs a statement that must fail with an answer of the server.
    ///
    /// # Panics
    ///
    /// If it succeeds, or neither the code nor the message of the answer says this.
    #[track_caller]
    fn refuses(&mut self, statement: &str, values: &[&(dyn ToSql + Sync)], says: &str) {
        let error = match self.query(statement, values) {
            Ok(rows) => panic!("not refused, but {} rows: {statement}", rows.len()),
            Err(error) => error,
        };
        let code = error.code().map_or("?", SqlState::code);
        let answer = format!("{code} {}", refusal(&error));
        let is_said = answer.contains(says);
        assert!(is_said, "`{says}` is not in `{answer}`: {statement}");
    }

    /// Runs statements that must fail: each line of the table is put in the place of `@`, and names after ` -- ` what
    /// the answer says.
    ///
    /// # Panics
    ///
    /// As `refuses`, or if the table has no line.
    #[track_caller]
    fn refuses_each(&mut self, statement: &str, table: &str) {
        let lines = table.lines().map(str::trim).filter(|line| !line.is_empty());
        assert!(lines.clone().count() > 0, "an empty table");
        for line in lines {
            let (values, says) = line.split_once("-- ").expect("what the answer says");
            self.refuses(&statement.replace('@', values), &[], says);
        }
    }
}

impl<C: GenericClient> Sql for C {}

#[track_caller]
fn answered<T>(statement: &str, answer: Result<T, postgres::Error>) -> T {
    answer.unwrap_or_else(|error| panic!("{statement}: {error:?}"))
}
