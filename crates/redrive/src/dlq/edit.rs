//! Edits payloads, and keeps every version.
//!
//! The new payload is a pure function of the old one. It is written only if the letter has not
//! been edited since it was read; otherwise the edit is computed again. Concurrent editors
//! therefore lose nothing.

mod patch;

use std::collections::{BTreeMap, HashSet};
use std::ops::ControlFlow;

use serde_json::value::RawValue;

use crate::db::database::SoFar;
use crate::dlq::letter::Letter;
use crate::dlq::prelude::*;
use crate::dlq::validation_error::{ValidationError, ValidationErrors};

pub use patch::Edit;

/// The letters per page. One of large letters has fewer.
const PAGE: u64 = 100;
/// The attempts to edit a letter that other editors keep changing.
const ROUNDS: usize = 10;

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
    /// Letters that are neither open nor quarantined, that other editors kept changing, or that another session, such
    /// as a consumer of `dlq_events`, had locked for over 3 s; jobs that a worker claimed or another operator changed
    /// meanwhile. A restore also skips letters without the version.
    pub skipped: Vec<JobId>,
    /// The audit record of the edit, by which [`LetterFilter::audit`] selects the edited
    /// letters; `None`: no letter was edited.
    pub audit: Option<i64>,
}

impl Edited {
    /// Those that the edit refuses are grouped at its end.
    pub(crate) fn so_far(&self) -> SoFar {
        let others = self.unchanged + self.skipped.len() as u64;
        SoFar::of(self.edited.len(), self.audit).and_unchanged(others)
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
    /// The payload after the edit.
    pub after: EditDiff,
}

/// The payload after an edit.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum EditDiff {
    /// A different payload.
    Changed(Box<RawValue>),
    /// The same payload.
    Unchanged,
    /// The edit does not apply, for this reason.
    Refused(String),
}

impl EditPreview {
    /// Returns the effect of an edit on a payload.
    pub(crate) fn of(edit: &Edit, id: JobId, before: Option<Box<RawValue>>) -> Result<EditPreview> {
        let after = match edit.make(before.as_deref().map(RawValue::get)) {
            Ok(None) => EditDiff::Unchanged,
            Ok(Some(json)) => EditDiff::Changed(json.raw_value()?),
            Err(why) => EditDiff::Refused(why),
        };
        Ok(EditPreview { id, before, after })
    }
}

/// Narrows a filter to the letters that an edit can change.
fn editable(filter: &LetterFilter) -> LetterFilter {
    filter.within(&[LetterState::Open, LetterState::Quarantined])
}

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
        let mut refused = ValidationErrors::default();
        let mut handled: HashSet<JobId> = HashSet::new();
        let is_stopped = self.each_editable(filter, |page| -> Result<ControlFlow<()>> {
            handled.extend(page.iter().map(|letter| letter.id));
            self.edit_page(filter, page, edit, operator, &mut done, &mut refused)?;
            refused.fold(self.db)?;
            Ok(self.db.go_on(done.so_far()))
        })?;
        if !is_stopped {
            let asked = filter.asked_ids().into_iter();
            done.skipped
                .extend(asked.filter(|id| !handled.contains(id)));
        }
        done.refused = refused.into_vec();
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
            for letter in page {
                visit(&EditPreview::of(edit, letter.id, letter.payload)?)?;
            }
            Ok(ControlFlow::Continue(()))
        })
        .map(drop)
    }

    /// Calls `visit` with each page, until it breaks. Returns whether it did.
    fn each_editable<E: From<Error>>(
        self,
        filter: &LetterFilter,
        mut visit: impl FnMut(Vec<Letter>) -> Result<ControlFlow<()>, E>,
    ) -> Result<bool, E> {
        let filter = editable(filter);
        self.in_pages(&filter, PAGE, |is_stopped: &mut bool, _, ids| -> Taken<E> {
            let course = visit(self.of_page(&filter, ids)?)?;
            *is_stopped = course.is_break();
            Ok(then(course, ids.len()))
        })
    }

    /// Edits a page, and retries letters that another editor changed meanwhile.
    fn edit_page(
        self,
        filter: &LetterFilter,
        mut page: Vec<Letter>,
        edit: &Edit,
        operator: &Operator,
        done: &mut Edited,
        refused: &mut ValidationErrors,
    ) -> Result<()> {
        for _ in 0..ROUNDS {
            let (mut ids, mut payloads, mut expected) = (Vec::new(), Vec::new(), Vec::new());
            for letter in page {
                match edit.make(letter.payload.as_deref().map(RawValue::get)) {
                    Ok(None) => done.unchanged += 1,
                    Ok(Some(json)) => {
                        ids.push(letter.id);
                        payloads.push(json);
                        expected.push(letter.edits);
                    }
                    Err(why) => refused.add(letter.id, why),
                }
            }
            if ids.is_empty() {
                return Ok(());
            }
            let edited: Vec<(JobId, u32, Option<i64>)> = self.db.ask_bulk().all(
                "edit letters",
                &sql::EDIT_LETTERS,
                &[
                    &ids,
                    &payloads,
                    // No captured bytes: those of a letter stay in its versions.
                    &None::<Vec<Vec<u8>>>,
                    &expected,
                    operator,
                    &filter.parameter()?,
                    &edit.word(),
                    &done.audit,
                ],
            )?;
            let mut lost: BTreeMap<JobId, u32> = ids.into_iter().zip(expected).collect();
            for (id, _, audit) in edited {
                done.audit = audit;
                done.edited.push(id);
                lost.remove(&id);
            }
            if lost.is_empty() {
                return Ok(());
            }
            let ids: Vec<JobId> = lost.keys().copied().collect();
            page = self.of_page(&editable(filter), &ids)?;
            // A letter that did not change was locked.
            let locked = page.extract_if(.., |it| lost.remove(&it.id) == Some(it.edits));
            done.skipped.extend(locked.map(|letter| letter.id));
            done.skipped.extend(lost.into_keys());
        }
        done.skipped.extend(page.iter().map(|letter| letter.id));
        Ok(())
    }
}
