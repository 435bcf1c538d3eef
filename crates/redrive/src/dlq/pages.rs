//! Iterates over letters page by page, in bounded memory.

use std::collections::BTreeSet;

use crate::dlq::letter::Letter;
use crate::dlq::prelude::*;

/// The most letters per page. One of large letters has fewer.
const PAGE: u64 = 1000;

impl Dlq<'_> {
    /// Calls `visit` with every matching letter in the order of ids, and returns the number
    /// of letters.
    ///
    /// Ids follow the order of enqueueing, approximately.
    ///
    /// Holds a few megabytes at a time. A letter that changes meanwhile is visited at most
    /// once, and only if it still matches.
    ///
    /// # Errors
    /// Any error of `visit`, which ends the iteration; *invalid* with [`LetterFilter::after`];
    /// otherwise if the database fails.
    pub fn for_each<E: From<Error>>(
        &self,
        filter: &LetterFilter,
        mut visit: impl FnMut(&Letter) -> Result<(), E>,
    ) -> Result<u64, E> {
        self.each_page(filter, |letters| letters.iter().try_for_each(&mut visit))
    }

    /// Calls `visit` with each page of letters.
    pub(crate) fn each_page<E: From<Error>>(
        self,
        filter: &LetterFilter,
        mut visit: impl FnMut(&[Letter]) -> Result<(), E>,
    ) -> Result<u64, E> {
        let (visited, _) =
            self.in_pages(filter, PAGE, |visited: &mut u64, _, ids| -> Taken<E> {
                let letters = self.of_page(filter, ids)?;
                visit(&letters)?;
                let seen = letters.len() as u64;
                *visited += seen;
                Ok(Some(seen))
            })?;
        Ok(visited)
    }

    /// Returns those letters of a page that still match, in the order of their ids.
    pub(crate) fn of_page(self, filter: &LetterFilter, ids: &[JobId]) -> Result<Vec<Letter>> {
        let mut letters = self.list(&filter.these(ids).limit(ids.len() as u64))?;
        letters.sort_unstable_by_key(|letter| letter.id);
        Ok(letters)
    }

    /// Runs `batch` as `in_batches` does, with the ids of a page, in their order. A page ends
    /// early if its letters are large. Returns what the batches did, and the ids that the filter names and no page had, unless
    /// a batch was the last one.
    pub(crate) fn in_pages<D: Default, E: From<Error>>(
        self,
        filter: &LetterFilter,
        size: u64,
        mut batch: impl FnMut(&mut D, &Json, &[JobId]) -> Taken<E>,
    ) -> Result<(D, BTreeSet<JobId>), E> {
        let mut after = JobId::new(i64::MIN);
        let mut missed: BTreeSet<JobId> = filter.asked_ids().into_iter().collect();
        let done = filter.in_batches(size, |done: &mut D, parameter, most| -> Taken<E> {
            let page: Vec<JobId> = self.db.ask_bulk().all(
                "read letters",
                &sql::PAGE_LETTERS,
                &[parameter, &after, &most, &filter.is_archived],
            )?;
            let Some(last) = page.last() else {
                return Ok(None);
            };
            after = *last;
            for id in &page {
                missed.remove(id);
            }
            let taken = batch(done, parameter, &page)?;
            if taken.is_none() {
                missed.clear();
            }
            Ok(taken)
        })?;
        Ok((done, missed))
    }
}
