//! The kind of pooler between this program and the server.

use crate::job::words::words;

words! {
    /// The mode of a connection pooler, such as PgBouncer, between redrive and the server.
    ///
    /// Without a declaration, redrive assumes [`Pooler::Transaction`], unless each connection proves that no
    /// other program uses its session: a server returns a setting that the connection was opened with, and a
    /// pooler does not. A session-mode pooler and a [pool of your own](crate::Database::from_pool) need a
    /// declaration.
    ///
    /// Behind [`Pooler::Transaction`], redrive keeps nothing on the connection between transactions: no
    /// prepared statements, session settings or LISTEN. The [guide](crate::_guide::poolers) has the costs.
    /// Statement-mode poolers are not supported, because redrive needs transactions.
    ///
    /// ```
    /// use redrive::{Database, Pooler};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let db = Database::builder(&std::env::var("DATABASE_URL")?)
    ///     .pooler(Pooler::Transaction)
    ///     .open()?;
    /// db.migrate()?;
    /// # Ok(()) }
    /// ```
    pub enum Pooler is "pooler mode" {
        /// No pooler, or one in session mode.
        Session = "session",
        /// A pooler in transaction mode.
        Transaction = "transaction",
    }
}
