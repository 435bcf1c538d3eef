//! The handles through which callers reach the dead letter queue.

use crate::db::database::Database;

/// The dead letters of a database. Returned by [`Database::dlq`].
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let db = redrive::connect(&std::env::var("DATABASE_URL")?)?;
/// # db.migrate()?;
/// use redrive::Operator;
/// use redrive::dlq::LetterFilter;
///
/// let invoices = LetterFilter::new().queue("invoices");
/// for letter in db.dlq().list(&invoices)? {
///     println!("{}: {}", letter.id, letter.error_message);
/// }
/// db.dlq().redrive(&invoices, &Operator::new("maria").reason("gateway fixed"))?;
/// # Ok(()) }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Dlq<'a> {
    pub(crate) db: &'a Database,
}

/// The failure groups of a database. Returned by [`Dlq::groups`].
#[derive(Clone, Copy, Debug)]
pub struct Groups<'a> {
    pub(crate) db: &'a Database,
}

/// The redrive runs of a database. Returned by [`Dlq::runs`].
#[derive(Clone, Copy, Debug)]
pub struct Runs<'a> {
    pub(crate) db: &'a Database,
}

/// The retention rules of a database. Returned by [`Dlq::retention`].
#[derive(Clone, Copy, Debug)]
pub struct RetentionRules<'a> {
    pub(crate) db: &'a Database,
}

/// The redactions of a database. Returned by [`Dlq::redactions`].
#[derive(Clone, Copy, Debug)]
pub struct Redactions<'a> {
    pub(crate) db: &'a Database,
}

impl Database {
    /// Returns the dead letters: list, redrive, edit, discard, capture and deliver them.
    pub fn dlq(&self) -> Dlq<'_> {
        Dlq { db: self }
    }
}

impl<'a> Dlq<'a> {
    /// Returns the failure groups: letters with the same queue, kind, error class and message.
    pub fn groups(self) -> Groups<'a> {
        Groups { db: self.db }
    }

    /// Returns the redrive runs: redrives that survive a crash and can be paused.
    pub fn runs(self) -> Runs<'a> {
        Runs { db: self.db }
    }

    /// Returns the retention rules, which delete or archive old letters.
    pub fn retention(self) -> RetentionRules<'a> {
        RetentionRules { db: self.db }
    }

    /// Returns the redactions, which remove secrets from letters when a job dies.
    pub fn redactions(self) -> Redactions<'a> {
        Redactions { db: self.db }
    }
}
