//! Iterates over letters page by page, in bounded memory.

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
        let mut after = JobId::new(i64::MIN);
        filter.in_batches(PAGE, |visited: &mut u64, _, most| -> Taken<E> {
            let ids = self.page_of_ids(filter, after, most)?;
            let Some(last) = ids.last() else {
                return Ok(None);
            };
            after = *last;
            let letters = self.letters_in_order(filter, &ids)?;
            visit(&letters)?;
            let seen = letters.len() as u64;
            *visited += seen;
            Ok(Some(seen))
        })
    }

    /// Returns the ids of a page, which ends early if its letters are large.
    pub(crate) fn page_of_ids(
        self,
        filter: &LetterFilter,
        after: JobId,
        most: u64,
    ) -> Result<Vec<JobId>> {
        self.db.ask_bulk().all(
            "read letters",
            &sql::PAGE_LETTERS,
            &[&filter.parameter()?, &after, &most],
        )
    }

    /// Returns the letters of a page that still match.
    fn letters_in_order(self, filter: &LetterFilter, ids: &[JobId]) -> Result<Vec<Letter>> {
        let page = filter.these(ids).limit(ids.len() as u64);
        let mut letters = self.list(&page)?;
        letters.sort_unstable_by_key(|letter| letter.id);
        Ok(letters)
    }
}
