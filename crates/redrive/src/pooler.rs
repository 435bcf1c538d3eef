//! The pooler: what is between us and the server, and so what of a connection is ours.

use std::fmt;
use std::str::FromStr;

use crate::error::{Error, Result};

/// What is between redrive and the server, such as PgBouncer, and when it gives a connection of
/// the server to somebody else.
///
/// With a pooler in transaction mode nothing of a connection outlives a transaction: no statement
/// that is prepared by name, no setting, no LISTEN. redrive must be told, because it uses all of
/// them otherwise; without being told it ends with a clear error, sooner or later, and until then
/// its settings reach whoever gets the connection next. Told so, it works without them, and pays:
///
/// - Every statement is parsed and planned anew, and one of a worker is three round trips instead
///   of one: its settings, itself, and the commit.
/// - Nothing notifies a worker. It [looks](crate::WorkerBuilder::poll) for jobs by itself, every
///   few milliseconds while some come and every second when none do. A cancel reaches a running
///   job at the next renewal, a third of a lease, and a breaker at the next look for chores, a
///   third of a lease or ten seconds.
/// - A handler [in its own transaction](crate::WorkerBuilder::handle_in_transaction), and a
///   [sink](crate::Sink) while it has a letter, keep a connection of the server for themselves.
///
/// A pooler in statement mode is of no use to redrive, which needs transactions.
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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pooler {
    /// None, or one in session mode: a connection is ours for as long as we keep it.
    #[default]
    Session,
    /// One in transaction mode: a connection is ours for a transaction.
    Transaction,
}

impl Pooler {
    /// The word for it on the command line.
    pub fn as_str(self) -> &'static str {
        match self {
            Pooler::Session => "session",
            Pooler::Transaction => "transaction",
        }
    }
}

impl fmt::Display for Pooler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for Pooler {
    type Err = Error;

    fn from_str(text: &str) -> Result<Pooler> {
        [Pooler::Session, Pooler::Transaction]
            .into_iter()
            .find(|pooler| pooler.as_str() == text)
            .ok_or_else(|| {
                Error::invalid(format!(
                    "`{}` is no mode of a pooler; there are session, also for none, and transaction",
                    text.escape_debug()
                ))
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mode_is_read_as_it_is_written() {
        for pooler in [Pooler::Session, Pooler::Transaction] {
            assert_eq!(pooler.to_string().parse::<Pooler>().ok(), Some(pooler));
        }
        for wrong in ["", "statement", "Transaction", "\u{1b}[1m"] {
            let error = wrong.parse::<Pooler>().expect_err(wrong);
            assert!(error.is_invalid(), "{error:?}");
            assert!(!error.to_string().contains('\u{1b}'), "{error}");
        }
    }
}
