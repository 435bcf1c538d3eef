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

impl Database {
    /// Returns the dead letters: list, redrive, edit, discard, capture and deliver them.
    pub fn dlq(&self) -> Dlq<'_> {
        Dlq { db: self }
    }
}

/// Declares the handles of what belongs to dead letters, each with the method that returns it.
macro_rules! handles {
    ($($name:ident $method:ident $of:literal: $what:literal;)*) => {$(
        #[doc = concat!("The ", $of, " of a database. Returned by [`Dlq::", stringify!($method), "`].")]
        #[derive(Clone, Copy, Debug)]
        pub struct $name<'a> {
            pub(crate) db: &'a Database,
        }

        impl<'a> Dlq<'a> {
            #[doc = concat!("Returns the ", $of, $what, ".")]
            pub fn $method(self) -> $name<'a> {
                $name { db: self.db }
            }
        }
    )*};
}

handles! {
    Groups groups "failure groups": ": letters with the same queue, kind, error class and message";
    Runs runs "redrive runs": ": redrives that survive a crash and can be paused";
    RetentionRules retention "retention rules": ", which delete or archive old letters";
    Redactions redactions "redactions": ", which remove secrets from letters when a job dies";
}
