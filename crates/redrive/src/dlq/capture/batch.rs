//! Captures failures, many in one statement.

use crate::dlq::capture::{CaptureOutcome, ForeignFailure, MAX_WHOLE_BYTES};
use crate::dlq::prelude::*;

/// How many captures one statement writes.
const BATCH: usize = 1000;
/// The approximate bytes per statement.
const BATCH_BYTES: usize = 8 * 1024 * 1024;

impl Dlq<'_> {
    /// Captures many failures and returns the outcome of each, in order.
    ///
    /// # Errors
    /// As [`capture`](Dlq::capture). [`ForeignFailure::check`] passes all failures before the first is sent.
    /// Each batch of at most 1,000 is one transaction, and repeating the call is safe.
    pub fn capture_many<'a>(
        &self,
        foreign: impl IntoIterator<Item = &'a ForeignFailure>,
    ) -> Result<Vec<CaptureOutcome>> {
        let failures: Vec<&ForeignFailure> = foreign.into_iter().collect();
        let lines = failures.iter().map(|failure| failure.line());
        let lines: Vec<Json> = lines.collect::<Result<_>>()?;
        let mut captures = Vec::with_capacity(failures.len());
        let mut from = 0;
        while from < failures.len() {
            let to = from + batch_size(&failures[from..]);
            captures.extend(self.capture_batch(&lines[from..to], &failures[from..to])?);
            from = to;
        }
        Ok(captures)
    }

    /// Captures checked failures in one statement: all with a past, or all without.
    fn capture_batch(
        self,
        lines: &[Json],
        batch: &[&ForeignFailure],
    ) -> Result<Vec<CaptureOutcome>> {
        let mut ask = self.db.ask_bulk();
        let mut doing = "capture failures".to_owned();
        if let [failure] = batch {
            doing = format!(
                "capture a failure of `{}` at `{}`",
                failure.source, failure.position
            );
            if failure.letter.is_none() && failure.raw.len() <= MAX_WHOLE_BYTES {
                ask = self.db.ask();
            }
        }
        let raws: Vec<&[u8]> = batch.iter().map(|failure| &*failure.raw).collect();
        let sql = match batch.iter().any(|failure| failure.letter.is_some()) {
            true => &sql::IMPORT_LETTERS,
            false => &sql::CAPTURE_LETTERS,
        };
        ask.all(&doing, sql, &[&lines, &raws])
    }
}

/// Returns how many of these failures the next statement captures. Those with and without a past have different ones.
fn batch_size(failures: &[&ForeignFailure]) -> usize {
    let mut bytes = 0;
    let batch = failures.iter().take(BATCH).take_while(|failure| {
        // A message has a limit, so a large failure goes alone.
        let fits = bytes <= BATCH_BYTES
            && failure.size() <= MAX_WHOLE_BYTES
            && failure.letter.is_some() == failures[0].letter.is_some();
        bytes += failure.size();
        fits
    });
    batch.count().max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_is_bounded_by_all_that_it_sends() {
        let failure = |position: usize, raw: usize| {
            ForeignFailure::new("s", "p".repeat(position), "q", "k", vec![b'0'; raw])
        };
        let (small, large) = (1, MAX_WHOLE_BYTES);
        for (position, raw, size) in [(small, small, 3), (small, large, 1), (large, small, 1)] {
            let failures = [failure(position, raw), failure(1, 1), failure(1, 1)];
            let failures: Vec<&ForeignFailure> = failures.iter().collect();
            assert_eq!(batch_size(&failures), size, "{position} {raw}");
        }
    }
}
