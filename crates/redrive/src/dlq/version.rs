//! The earlier payloads of an edited letter.

use std::time::SystemTime;

use serde_json::value::RawValue;

use crate::dlq::edit::Edited;
use crate::dlq::prelude::*;

/// The letters per page of a restore.
const PAGE: u64 = 100;

row! {
    /// A payload that an edit replaced, or a failure captured again for a closed letter.
    pub struct PayloadVersion {
        /// The number; 0 is the payload that died or was captured.
        pub version: u32,
        /// The payload.
        pub payload: Option<Box<RawValue>>,
        /// The captured bytes; the first 64 KiB if there were more than 16 MiB.
        pub raw: Option<Vec<u8>>,
        /// When the edit replaced it.
        pub edited_at: SystemTime,
        /// The database role of the editor.
        pub role: String,
        /// The operator who edited.
        pub person: Option<String>,
        /// The operator's reason.
        pub reason: Option<String>,
    }
}

impl Dlq<'_> {
    /// Returns the earlier payloads of a letter, also of an archived one, oldest first; empty if it was never
    /// edited or does not exist.
    ///
    /// # Errors
    /// If the database fails.
    pub fn versions(&self, id: JobId) -> Result<Vec<PayloadVersion>> {
        let doing = format!("read the versions of letter {id}");
        self.db.ask_bulk().all(&doing, &sql::VERSIONS, &[&id])
    }

    /// Restores the payloads before the last edits, or of the given version, of open and quarantined letters, in
    /// batches of 100.
    ///
    /// A restore is an edit: undoing it twice changes nothing.
    ///
    /// With the filter [`LetterFilter::audit`], this undoes an edit of many letters. Letters
    /// without that version, or locked by another session, are skipped.
    ///
    /// # Errors
    /// *Invalid* with [`LetterFilter::after`]; otherwise if the database fails.
    pub fn restore_versions(
        &self,
        filter: &LetterFilter,
        version: Option<u32>,
        operator: &Operator,
    ) -> Result<Edited> {
        let editable = filter.within(&[LetterState::Open, LetterState::Quarantined]);
        let restore = |done: &mut Edited, _: &Json, page: &[JobId]| -> Taken {
            let restored = self.db.ask_bulk().all(
                "restore letters",
                &sql::EDIT_LETTERS,
                &[
                    &page,
                    &None::<Vec<Json>>,
                    &None::<Vec<i32>>,
                    operator,
                    &filter.parameter()?,
                    &"restore",
                    &done.audit,
                    &version,
                ],
            )?;
            done.add(page, restored);
            Ok(then(self.db.go_on(done.so_far()), page.len()))
        };
        let (mut done, missed) = self.in_pages(&editable, PAGE, restore)?;
        done.skipped.extend(missed);
        Ok(done)
    }
}
