//! Operations on many rows: batches, each of which is one call and one transaction.

use std::ops::ControlFlow;

use crate::dlq::filter::{Fields, Filter};
use crate::error::{Error, Result};
use crate::job::payload::Json;

/// The rows that a batch has taken; `None`: it is the last one.
pub(crate) type Taken<E = Error> = Result<Option<u64>, E>;

impl<F: Fields> Filter<F> {
    /// Runs `batch` with the filter and the largest number of rows that it may take, until it returns `None`, because
    /// nothing is left or its caller wants no more, or the limit is used up by the rows that it returns. Returns what the
    /// batches did. A limit of 0 runs one batch too, whose statement checks what it is given.
    ///
    /// # Errors
    /// *Invalid* with [`after`](Filter::after), and those of `batch`.
    pub(crate) fn in_batches<D: Default, E: From<Error>>(
        &self,
        size: u64,
        mut batch: impl FnMut(&mut D, &Json, u64) -> Taken<E>,
    ) -> Result<D, E> {
        let filter = self.recorded()?;
        let mut done = D::default();
        let mut left = self.limit.unwrap_or(u64::MAX);
        while let Some(taken) = batch(&mut done, &filter, size.min(left))? {
            left = left.saturating_sub(taken);
            if left == 0 {
                break;
            }
        }
        Ok(done)
    }
}

/// Returns the rows of a batch for `in_batches` if its caller wants more.
pub(crate) fn then(course: ControlFlow<()>, rows: usize) -> Option<u64> {
    course.is_continue().then_some(rows as u64)
}
