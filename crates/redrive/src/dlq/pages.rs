//! Iterates over letters page by page, in bounded memory.

use std::collections::HashMap;

use crate::db::sql;
use crate::dlq::filter::LetterFilter;
use crate::dlq::handle::Dlq;
use crate::dlq::letter::Letter;
use crate::error::{Error, Result};
use crate::job::job::JobId;

/// The size of the first page, while the size of a letter is unknown.
const FIRST_PAGE: u64 = 20;
/// The largest page.
const MOST_OF_A_PAGE: u64 = 1000;
/// The approximate bytes per page.
const PAGE_BYTES: u64 = 4 * 1024 * 1024;

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
        filter.whole()?;
        let mut left = filter.limit.unwrap_or(u64::MAX);
        let mut size = FIRST_PAGE;
        let mut after = JobId::new(i64::MIN);
        let mut visited = 0;
        while left > 0 {
            let ids = self.page_of_ids(filter, after, size.min(left))?;
            let Some(last) = ids.last() else { break };
            after = *last;
            let letters = self.letters_in_order(filter, &ids)?;
            visit(&letters)?;
            let seen = letters.len() as u64;
            visited += seen;
            left -= seen;
            size = next_size(&letters);
        }
        Ok(visited)
    }

    /// Returns the ids of a page.
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
        let found = self.list(&page)?;
        let mut by_id: HashMap<i64, Letter> = found
            .into_iter()
            .map(|letter| (letter.id.get(), letter))
            .collect();
        Ok(ids
            .iter()
            .filter_map(|id| by_id.remove(&id.get()))
            .collect())
    }
}

/// Returns the size of the next page from the weight of the last.
fn next_size(letters: &[Letter]) -> u64 {
    let bytes: usize = letters.iter().map(weight).sum();
    let each = (bytes / letters.len().max(1)).max(1) as u64;
    (PAGE_BYTES / each).clamp(1, MOST_OF_A_PAGE)
}

/// Returns the approximate size of a letter, in bytes.
fn weight(letter: &Letter) -> usize {
    let payload = letter
        .payload
        .as_ref()
        .map_or(0, |payload| payload.get().len());
    let raw = letter.raw.as_ref().map_or(0, Vec::len);
    let detail = letter.error_detail.as_ref().map_or(0, String::len);
    1024 + payload + raw + detail + letter.error_message.len() + 1024 * letter.history.len()
}
