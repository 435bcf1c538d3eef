//! Captures many failures in one statement.

use serde::Serialize;

use crate::db::sql;
use crate::dlq::capture::{CaptureOutcome, ForeignFailure, MAX_WHOLE_BYTES};
use crate::dlq::handle::Dlq;
use crate::dlq::past::LetterPast;
use crate::error::{Error, Result};
use crate::job::payload::Json;

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
        for part in foreign.chunk_by(|a, b| a.past.is_some() == b.past.is_some()) {
            let mut columns = CaptureColumns::default();
            for captured in part {
                // A message has a limit, so such a failure goes alone.
                if captured.raw.len() > MAX_WHOLE_BYTES && !columns.raws.is_empty() {
                    captures.extend(self.capture_batch(&std::mem::take(&mut columns))?);
                }
                columns.push(captured)?;
                if columns.raws.len() == BATCH || columns.bytes > BATCH_BYTES {
                    captures.extend(self.capture_batch(&std::mem::take(&mut columns))?);
                }
            }
            if !columns.raws.is_empty() {
                captures.extend(self.capture_batch(&columns)?);
            }
        }
        Ok(captures)
    }

    fn capture_batch(self, columns: &CaptureColumns) -> Result<Vec<CaptureOutcome>> {
        let ask = self.db.ask_bulk();
        let captured: Vec<CaptureOutcome> = match columns.lines.is_empty() {
            true => ask.all(
                "capture failures",
                &sql::CAPTURE_LETTERS,
                &[
                    &columns.sources,
                    &columns.positions,
                    &columns.queues,
                    &columns.kinds,
                    &columns.raws,
                    &columns.content_types,
                    &columns.headers,
                    &columns.error_classes,
                    &columns.error_messages,
                    &columns.error_details,
                    &columns.group_keys,
                    &columns.failure_keys,
                ],
            )?,
            false => ask.all(
                "capture exported letters",
                &sql::IMPORT_LETTERS,
                &[&columns.lines, &columns.raws],
            )?,
        };
        if captured.len() != columns.raws.len() {
            return Err(Error::unavailable(
                "could not capture failures: the database returned a wrong number of rows",
            ));
        }
        Ok(captured)
    }
}

/// A failure with a past, without its bytes, as `redrive.import_letters` takes it.
#[derive(Serialize)]
struct ImportLine<'a> {
    source: &'a str,
    position: &'a str,
    queue: &'a str,
    kind: &'a str,
    content_type: &'a str,
    headers: &'a std::collections::BTreeMap<String, String>,
    error_class: &'a str,
    error_message: &'a str,
    error_detail: Option<&'a str>,
    group_key: Option<&'a str>,
    letter: &'a LetterPast,
}

impl ImportLine<'_> {
    fn of<'a>(captured: &'a ForeignFailure, past: &'a LetterPast) -> ImportLine<'a> {
        ImportLine {
            source: &captured.source,
            position: &captured.position,
            queue: &captured.queue,
            kind: &captured.kind,
            content_type: &captured.content_type,
            headers: &captured.headers,
            error_class: &captured.error_class,
            error_message: &captured.error_message,
            error_detail: captured.error_detail.as_deref(),
            group_key: captured.group_key.as_deref(),
            letter: past,
        }
    }
}

/// Captures in the form of the statement's parameters: all with a past, or all without.
#[derive(Default)]
struct CaptureColumns {
    sources: Vec<String>,
    positions: Vec<String>,
    queues: Vec<String>,
    kinds: Vec<String>,
    raws: Vec<Vec<u8>>,
    content_types: Vec<String>,
    headers: Vec<Json>,
    error_classes: Vec<String>,
    error_messages: Vec<String>,
    error_details: Vec<Option<String>>,
    group_keys: Vec<Option<String>>,
    failure_keys: Vec<Option<String>>,
    /// Failures with a past. The other columns, except the bytes, are then empty.
    lines: Vec<Json>,
    bytes: usize,
}

impl CaptureColumns {
    fn push(&mut self, captured: &ForeignFailure) -> Result<()> {
        self.bytes += captured.raw.len();
        self.raws.push(captured.raw.clone());
        if let Some(past) = &captured.past {
            self.lines.push(Json::of(
                "the past of a capture",
                &ImportLine::of(captured, past),
            )?);
            return Ok(());
        }
        self.sources.push(captured.source.clone());
        self.positions.push(captured.position.clone());
        self.queues.push(captured.queue.clone());
        self.kinds.push(captured.kind.clone());
        self.content_types.push(captured.content_type.clone());
        self.headers
            .push(Json::of("the headers of a capture", &captured.headers)?);
        self.error_classes.push(captured.error_class.clone());
        self.error_messages.push(captured.error_message.clone());
        self.error_details.push(captured.error_detail.clone());
        self.group_keys.push(captured.group_key.clone());
        self.failure_keys.push(captured.failure_key.clone());
        Ok(())
    }
}
