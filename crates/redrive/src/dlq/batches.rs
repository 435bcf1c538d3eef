//! Operations on many rows: batches, each of which is one call and one transaction.

use std::ops::ControlFlow;

use crate::error::Error;

/// Runs `batch` with the largest number of rows it may take, and then `go_on`, until `batch` returns
/// `None` because nothing is left, the limit is used up by the rows that it returns, or `go_on` breaks.
pub(crate) fn in_batches<D, E: From<Error>>(
    limit: Option<u64>,
    size: u64,
    done: &mut D,
    mut batch: impl FnMut(&mut D, u64) -> Result<Option<u64>, E>,
    mut go_on: impl FnMut(&D) -> ControlFlow<()>,
) -> Result<(), E> {
    let mut left = limit.unwrap_or(u64::MAX);
    while left > 0 {
        let Some(taken) = batch(done, size.min(left))? else {
            break;
        };
        left = left.saturating_sub(taken);
        if go_on(done).is_break() {
            break;
        }
    }
    Ok(())
}
