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
    /// As [`capture`](Dlq::capture). All failures are checked before the first is sent.
    /// Each batch of at most 1,000 is one transaction, and repeating the call is safe.
    pub fn capture_many<'a>(
        &self,
        foreign: impl IntoIterator<Item = &'a ForeignFailure>,
    ) -> Result<Vec<CaptureOutcome>> {
        let foreign: Vec<&ForeignFailure> = foreign.into_iter().collect();
        for captured in &foreign {
            captured.check()?;
        }
        let mut captures = Vec::with_capacity(foreign.len());
        // Failures with and without a past are captured by different statements.
        for mut part in foreign.chunk_by(|a, b| a.is_exported() == b.is_exported()) {
            while !part.is_empty() {
                let (batch, rest) = part.split_at(batch_size(part));
                captures.extend(self.capture_batch(batch)?);
                part = rest;
            }
        }
        Ok(captures)
    }

    /// Captures checked failures in one statement: all with a past, or all without.
    fn capture_batch(self, batch: &[&ForeignFailure]) -> Result<Vec<CaptureOutcome>> {
        let is_exported = batch.iter().any(|failure| failure.is_exported());
        let mut ask = self.db.ask_bulk();
        let mut doing = "capture failures".to_owned();
        if let [ForeignFailure { about, raw }] = batch {
            let (source, position) = (&about.source, &about.position);
            doing = format!("capture a failure of `{source}` at `{position}`");
            if !is_exported && raw.len() <= MAX_WHOLE_BYTES {
                ask = self.db.ask();
            }
        }
        let lines: Vec<Json> = batch
            .iter()
            .map(|failure| Json::large("a capture", &failure.about))
            .collect::<Result<_>>()?;
        let raws: Vec<&[u8]> = batch.iter().map(|failure| &*failure.raw).collect();
        let sql = match is_exported {
            true => &sql::IMPORT_LETTERS,
            false => &sql::CAPTURE_LETTERS,
        };
        let captured: Vec<CaptureOutcome> = ask.all(&doing, sql, &[&lines, &raws])?;
        if captured.len() != batch.len() {
            return Err(Error::unavailable(format!(
                "could not {doing}: the database returned a wrong number of rows"
            )));
        }
        Ok(captured)
    }
}

/// Returns how many of these failures the next statement captures.
fn batch_size(failures: &[&ForeignFailure]) -> usize {
    let mut bytes = 0;
    let batch = failures.iter().take(BATCH).take_while(|failure| {
        // A message has a limit, so a large failure goes alone.
        let fits = bytes <= BATCH_BYTES && failure.size() <= MAX_WHOLE_BYTES;
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
