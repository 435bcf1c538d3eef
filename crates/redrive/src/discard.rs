//! Discard and prune: letters that nobody wants any more.

use std::time::Duration;

use crate::act::Act;
use crate::database::Database;
use crate::error::{Error, Result};
use crate::failure::clip;
use crate::filter::Letters;
use crate::job::{JobId, milliseconds};
use crate::letter::LETTERS_TIMEOUT;
use crate::sql;

/// How many letters one statement deletes.
const PRUNE_BATCH: i64 = 2000;
/// The longest reason for a discard that is kept, in bytes.
const WHY_BYTES: usize = 1024;

impl Database {
    /// Closes open letters for good, and keeps why. They stay until they are pruned.
    ///
    /// Answers the ids of those that were closed.
    ///
    /// # Errors
    /// *Invalid* when no reason is given; when the database refuses or does not answer.
    pub fn discard(&self, which: &Letters, act: &Act) -> Result<Vec<JobId>> {
        let Some(why) = act.reason() else {
            return Err(Error::invalid("a discard needs a reason"));
        };
        self.in_batches(
            "discard letters",
            &sql::DISCARD,
            which,
            Some(&clip(why.to_owned(), WHY_BYTES)),
        )
    }

    /// Deletes letters that were recovered or discarded longer ago than `older_than`, in batches,
    /// whatever the [rules of retention](crate::Retention) say. Open letters are never deleted.
    /// Answers how many are gone.
    ///
    /// # Errors
    /// When the database refuses or does not answer; what was deleted until then is deleted.
    pub fn prune(&self, older_than: Duration) -> Result<u64> {
        self.prune_by(older_than, &Act::new())
    }

    /// The same, with who does it and why for the audit.
    ///
    /// # Errors
    /// Those of [`prune`](Database::prune).
    pub fn prune_by(&self, older_than: Duration, act: &Act) -> Result<u64> {
        let age_ms = milliseconds(older_than);
        let mut pruned = 0;
        loop {
            let act = act.clone();
            let batch = self.call_within("prune letters", LETTERS_TIMEOUT, move |session| {
                let row = session.query_one(
                    "prune letters",
                    &sql::PRUNE,
                    &[&age_ms, &PRUNE_BATCH, &act.by(), &act.reason()],
                )?;
                Ok(row.get::<_, i64>("pruned").unsigned_abs())
            })?;
            if batch == 0 {
                return Ok(pruned);
            }
            pruned += batch;
        }
    }
}
