//! The statements of the library, for tests that run a single one, and statements of a test.

use postgres::GenericClient;

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
}

impl<C: GenericClient> Sql for C {
    #[track_caller]
    fn sql(&mut self, statements: &str) {
        if let Err(error) = self.batch_execute(statements) {
            panic!("{statements}: {error:?}");
        }
    }
}
