//! Edits payloads, and keeps every version.
//!
//! The new payload is a pure function of the old one. It is written only if the letter has not
//! been edited since it was read. Concurrent editors therefore lose nothing.

mod patch;

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use serde_json::value::RawValue;

use crate::db::database::BatchProgress;
use crate::dlq::prelude::*;
use crate::dlq::validation_error::{ValidationError, add_error};

pub use patch::Edit;

/// The letters per page. One of large letters has fewer.
const PAGE: u64 = 100;

/// The outcome of an edit of letters or of [waiting jobs](crate::admin::Jobs::edit), or of a restore of versions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Edited {
    /// Letters or jobs with a new payload.
    pub edited: Vec<JobId>,
    /// The number of those that the edit does not change.
    pub unchanged: u64,
    /// Errors of those that the edit cannot change, grouped by message.
    pub refused: Vec<ValidationError>,
    /// Letters that are neither open nor quarantined, that another operator edited meanwhile, or that another session,
    /// such as a consumer of `dlq_events`, had locked for over 3 s; jobs that a worker claimed or another operator changed
    /// meanwhile. A restore also skips letters without the version.
    pub skipped: Vec<JobId>,
    /// The audit record of the edit, by which [`LetterFilter::audit`] selects the edited
    /// letters; `None`: no letter was edited.
    pub audit: Option<i64>,
}

impl Edited {
    /// Edits a page. `write` is given those that change with their new payloads and what was read of them, and the audit
    /// record of the pages before. It returns those that it stored, with the record.
    pub(crate) fn page<T>(
        &mut self,
        edit: &Edit,
        page: Vec<Read<T>>,
        write: impl FnOnce(&[JobId], &[Json], &[(OldPayload, T)], Option<i64>) -> Result<Stored>,
    ) -> Result<()> {
        let (mut ids, mut payloads, mut read) = (Vec::new(), Vec::new(), Vec::new());
        for (id, payload, rest) in page {
            match edit.make(payload.as_deref().map(RawValue::get)) {
                Ok(None) => self.unchanged += 1,
                Ok(Some(json)) => {
                    ids.push(id);
                    payloads.push(json);
                    read.push((payload, rest));
                }
                Err(why) => add_error(&mut self.refused, id, why),
            }
        }
        if !ids.is_empty() {
            let stored = write(&ids, &payloads, &read, self.audit)?;
            self.add(&ids, stored);
        }
        Ok(())
    }

    /// Adds those that were stored of a page, and skips the others.
    pub(crate) fn add(&mut self, page: &[JobId], stored: Stored) {
        self.audit = stored.last().map_or(self.audit, |(_, audit)| *audit);
        let stored: Vec<JobId> = stored.into_iter().map(|(id, _)| id).collect();
        let left = page.iter().filter(|id| !stored.contains(id));
        self.skipped.extend(left);
        self.edited.extend(stored);
    }

    pub(crate) fn so_far(&self) -> BatchProgress {
        let others = self.unchanged + self.skipped.len() as u64;
        BatchProgress::of(self.edited.len(), self.audit).and_unchanged(others)
    }
}

/// The effect that an edit would have on a letter or a waiting job.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct EditPreview {
    /// The letter or the job.
    pub id: JobId,
    /// The current payload; `None` for captured bytes that are not JSON or exceed 16 MiB.
    pub before: Option<Box<RawValue>>,
    /// The payload after the edit; `None`: it stays the same. An error is the reason why the edit does not apply.
    pub after: Result<Option<Box<RawValue>>, String>,
}

impl EditPreview {
    /// Returns the effect of an edit on a payload.
    pub(crate) fn of(edit: &Edit, id: JobId, before: Option<Box<RawValue>>) -> Result<EditPreview> {
        let after = match edit.make(before.as_deref().map(RawValue::get)) {
            Ok(json) => Ok(json.as_ref().map(Json::raw_value).transpose()?),
            Err(why) => Err(why),
        };
        Ok(EditPreview { id, before, after })
    }
}

/// `None` for captured bytes.
type OldPayload = Option<Box<RawValue>>;

/// A letter or a waiting job as an edit reads it: its payload, and the edits of a letter or the place of a job.
pub(crate) type Read<T> = (JobId, OldPayload, T);

/// The letters or jobs that a statement stored, with the audit record.
pub(crate) type Stored = Vec<(JobId, Option<i64>)>;

impl Dlq<'_> {
    /// Edits the payloads of open and quarantined letters, in the order of their ids.
    ///
    /// Every letter keeps its earlier [`versions`](Dlq::versions). A letter that the edit
    /// does not change gets no version.
    ///
    /// # Errors
    /// *Invalid* with [`LetterFilter::after`]; otherwise if the database fails.
    pub fn edit(&self, filter: &LetterFilter, edit: &Edit, operator: &Operator) -> Result<Edited> {
        let mut done = Edited::default();
        let parameter = filter.parameter()?;
        let missed = self.each_editable(filter, |page| -> Result<ControlFlow<()>> {
            done.page(edit, page, |ids, payloads, read, audit| {
                let expected: Vec<i32> = read.iter().map(|(_, edits)| *edits).collect();
                self.db.ask_bulk().all(
                    "edit letters",
                    &sql::EDIT_LETTERS,
                    &[
                        &ids,
                        &payloads,
                        &expected,
                        operator,
                        &parameter,
                        &edit.word,
                        &audit,
                        &None::<u32>,
                    ],
                )
            })?;
            Ok(self.db.go_on(done.so_far()))
        })?;
        done.skipped.extend(missed);
        Ok(done)
    }

    /// Calls `visit` with the effect on each letter, and changes nothing.
    ///
    /// # Errors
    /// Any error of `visit`, which ends the iteration; *invalid* with [`LetterFilter::after`];
    /// otherwise if the database fails.
    pub fn preview_edit<E: From<Error>>(
        &self,
        filter: &LetterFilter,
        edit: &Edit,
        mut visit: impl FnMut(&EditPreview) -> Result<(), E>,
    ) -> Result<(), E> {
        self.each_editable(filter, |page| -> Result<ControlFlow<()>, E> {
            for (id, payload, _) in page {
                visit(&EditPreview::of(edit, id, payload)?)?;
            }
            Ok(ControlFlow::Continue(()))
        })
        .map(drop)
    }

    /// Calls `visit` with each page, until it breaks. Returns what `in_pages` missed, and letters that changed before they
    /// were read.
    fn each_editable<E: From<Error>>(
        self,
        filter: &LetterFilter,
        mut visit: impl FnMut(Vec<Read<i32>>) -> Result<ControlFlow<()>, E>,
    ) -> Result<BTreeSet<JobId>, E> {
        let filter = filter.within(&[LetterState::Open, LetterState::Quarantined]);
        let edit = |changed: &mut BTreeSet<JobId>, _: &Json, ids: &[JobId]| -> Taken<E> {
            let letters = self.of_page(&filter, ids)?;
            let is_gone = |id: &&JobId| letters.iter().all(|letter| letter.id != **id);
            changed.extend(ids.iter().filter(is_gone));
            let letters = letters.into_iter();
            let read = letters.map(|it| (it.id, it.payload, it.edits.cast_signed()));
            Ok(then(visit(read.collect())?, ids.len()))
        };
        let (changed, mut missed) = self.in_pages(&filter, PAGE, edit)?;
        missed.extend(changed);
        Ok(missed)
    }
}
