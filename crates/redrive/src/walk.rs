//! A walk through letters, page by page: bounded memory, however many and however large they are.

use std::collections::HashMap;

use crate::database::Database;
use crate::error::{Error, Result};
use crate::filter::Letters;
use crate::job::JobId;
use crate::letter::Letter;
use crate::sql;

/// How many letters the first page has: nothing is known of their size.
const FIRST_PAGE: u64 = 20;
/// The most letters of a page.
const MOST_OF_A_PAGE: u64 = 1000;
/// How many bytes a page should have, about.
const PAGE_BYTES: u64 = 4 * 1024 * 1024;

impl Database {
    /// Visits every letter that is meant, in the order of their ids, which is about that in which
    /// their jobs were enqueued. Answers how many were visited.
    ///
    /// It holds a few megabytes of them at a time. Letters that change meanwhile are visited once
    /// as they are then, or not any more when they no longer match.
    ///
    /// # Errors
    /// What `visit` answers, which ends the walk; *invalid* with [`Letters::after`]; when the
    /// database refuses or does not answer.
    pub fn each_letter<E: From<Error>>(
        &self,
        which: &Letters,
        mut visit: impl FnMut(&Letter) -> Result<(), E>,
    ) -> Result<u64, E> {
        self.each_page(which, |letters| letters.iter().try_for_each(&mut visit))
    }

    /// The same, a page at a time.
    pub(crate) fn each_page<E: From<Error>>(
        &self,
        which: &Letters,
        mut visit: impl FnMut(&[Letter]) -> Result<(), E>,
    ) -> Result<u64, E> {
        which.refuse_after()?;
        let mut left = which.limit.unwrap_or(u64::MAX);
        let mut size = FIRST_PAGE;
        let mut after = JobId::new(i64::MIN);
        let mut visited = 0;
        while left > 0 {
            let ids = self.page_of_letters(which, after, size.min(left))?;
            let Some(last) = ids.last() else { break };
            after = *last;
            let letters = self.letters_in_order(which, &ids)?;
            visit(&letters)?;
            let seen = letters.len() as u64;
            visited += seen;
            left -= seen;
            size = next_size(&letters);
        }
        Ok(visited)
    }

    /// The ids of a page.
    pub(crate) fn page_of_letters(
        &self,
        which: &Letters,
        after: JobId,
        most: u64,
    ) -> Result<Vec<JobId>> {
        let filter = which.filter()?;
        let most = i64::try_from(most).unwrap_or(i64::MAX);
        self.call_bulk("read letters", move |session| {
            let parameters: [crate::session::Parameter<'_>; 3] = [&filter, &after.get(), &most];
            let rows = session.query("read letters", &sql::PAGE_LETTERS, &parameters)?;
            Ok(rows.iter().map(|row| JobId::new(row.get("id"))).collect())
        })
    }

    /// The letters of a page, those that are still meant.
    fn letters_in_order(&self, which: &Letters, ids: &[JobId]) -> Result<Vec<Letter>> {
        let page = which.these(ids).limit(ids.len() as u64);
        let found = self.letters(&page)?;
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

/// How many letters the next page should have, from what the last one weighed.
fn next_size(letters: &[Letter]) -> u64 {
    let bytes: usize = letters.iter().map(weight).sum();
    let each = (bytes / letters.len().max(1)).max(1) as u64;
    (PAGE_BYTES / each).clamp(1, MOST_OF_A_PAGE)
}

/// About how many bytes a letter takes.
fn weight(letter: &Letter) -> usize {
    let payload = letter
        .payload
        .as_ref()
        .map_or(0, |payload| payload.get().len());
    let raw = letter.raw.as_ref().map_or(0, Vec::len);
    let detail = letter.error_detail.as_ref().map_or(0, String::len);
    1024 + payload + raw + detail + letter.error_message.len() + 1024 * letter.history.len()
}
