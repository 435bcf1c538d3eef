//! Finds and repairs what points at a job that is gone, and totals that differ from the rows.

use crate::db::admin::Admin;
use crate::dlq::prelude::*;

row! {
    /// A kind of fault in the tables, with its places.
    #[derive(PartialEq, Eq)]
    pub struct Fault {
        /// The kind: `sequence`, `letter`, `unique_key`, `group_slot`, `run`, `schedule`,
        /// `group_count` or `counter`. Newer schemas may have more.
        pub kind: String,
        /// The number of places.
        pub places: u64,
        /// Up to ten of them: an id, a key, a queue with its group, a name, or a total with its error.
        pub examples: Vec<String>,
    }
}

impl Admin<'_> {
    /// Returns the faults that [`repair`](Admin::repair) would fix. Changes nothing.
    ///
    /// No statement of redrive leaves any, but a row deleted by hand and a partial restore do, and so does a restore into a
    /// migrated schema. This reads every job and letter, so run it off-peak.
    ///
    /// # Errors
    /// If the database fails.
    pub fn faults(&self) -> Result<Vec<Fault>> {
        self.repaired("look for faults", None)
    }

    /// Fixes every fault and returns what it fixed, with one audit record for each kind.
    ///
    /// A letter without a job opens again, and its run no longer waits for it. Unique keys and turns of groups are freed. A
    /// schedule gets its next tick, and totals become the numbers of the rows.
    ///
    /// # Errors
    /// If the database fails. Nothing was changed then, unless the answer was lost.
    pub fn repair(&self, operator: &Operator) -> Result<Vec<Fault>> {
        self.repaired("repair", Some(operator))
    }

    /// Fixes what it finds. Without an operator, it only finds it.
    fn repaired(self, doing: &'static str, operator: Option<&Operator>) -> Result<Vec<Fault>> {
        self.db
            .ask_bulk()
            .all(doing, &sql::REPAIR, &[&operator.is_none(), &operator])
    }
}
