//! Captures failures from outside redrive, such as a Kafka event or a webhook, as dead letters.

mod batch;
mod pace;

pub use pace::CapturePace;

use std::collections::BTreeMap;

use postgres::Row;
use serde::Serialize;

use crate::dlq::past::LetterPast;
use crate::dlq::prelude::*;

/// The largest capture, in bytes, with its source, position and kind: 256 MiB.
///
/// A dump writes each byte as two characters, and PostgreSQL reads and writes rows of up to 1 GiB.
pub const MAX_CAPTURE_BYTES: usize = 256 * 1024 * 1024;

/// The most captured bytes that are parsed as JSON, and that a letter shows. Of more, it shows the start.
pub(crate) const MAX_WHOLE_BYTES: usize = 16 * 1024 * 1024;

/// A failure outside redrive, to be stored as a dead letter with the cause `captured`.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let db = redrive::connect(&std::env::var("DATABASE_URL")?)?;
/// # db.migrate()?;
/// use redrive::dlq::{CaptureOutcome, ForeignFailure};
///
/// let event = ForeignFailure::new("kafka:orders", "3/1842", "orders", "order.placed", b"{broken")
///     .error("ParseError", "unexpected end of input");
/// db.dlq().capture(&event)?;
/// // The same position again is the same letter.
/// assert!(matches!(db.dlq().capture(&event)?, CaptureOutcome::Known(_)));
/// # Ok(()) }
/// ```
// Serialized without its bytes, as `redrive.capture_letters` and `redrive.import_letters` take it.
#[derive(Clone, Debug, Default, Serialize)]
#[must_use]
pub struct ForeignFailure {
    source: String,
    position: String,
    queue: String,
    kind: String,
    content_type: Option<String>,
    headers: BTreeMap<String, String>,
    error_class: Option<String>,
    error_message: Option<String>,
    error_detail: Option<String>,
    group_key: Option<String>,
    failure_key: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    letter: Option<Box<LetterPast>>,
    #[serde(skip)]
    raw: Vec<u8>,
}

/// The outcome of a capture.
// Exhaustive: callers should handle every outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CaptureOutcome {
    /// A new letter.
    New(JobId),
    /// This position was captured before, and its letter was recovered or discarded. The letter
    /// is open again, in the next generation, with this failure. It keeps its history.
    Reopened(JobId),
    /// This position was captured before, as this letter. Only its count increased,
    /// unless the letter is redriving.
    Known(JobId),
    /// As [`Known`](CaptureOutcome::Known), but with other bytes, which are not stored: the
    /// position names another event, for example because a topic was recreated. A letter that was
    /// edited is not compared, and none is while there are redactions.
    Different(JobId),
}

impl CaptureOutcome {
    /// Returns the letter of the position.
    pub fn id(self) -> JobId {
        match self {
            CaptureOutcome::New(id)
            | CaptureOutcome::Reopened(id)
            | CaptureOutcome::Known(id)
            | CaptureOutcome::Different(id) => id,
        }
    }
}

impl FromRow for CaptureOutcome {
    fn from_row(row: &Row) -> Result<CaptureOutcome> {
        let id = column(row, "id")?;
        let is_so = |name: &str| -> bool { row.get(name) };
        Ok(match ["is_new", "is_reopened", "is_other"].map(is_so) {
            [true, _, _] => CaptureOutcome::New(id),
            [_, true, _] => CaptureOutcome::Reopened(id),
            [_, _, true] => CaptureOutcome::Different(id),
            [false, false, false] => CaptureOutcome::Known(id),
        })
    }
}

impl ForeignFailure {
    /// Describes a failure: its source, its position there, the queue and kind to redrive
    /// it to, and its bytes.
    ///
    /// A source of more than 100 characters, a kind of more than 255 and a position of more than 500 are
    /// shortened: the start, `~` and a hash of the whole. The header `redrive-source`, `redrive-kind` or `redrive-position`
    /// of the letter has the original.
    ///
    /// Of bytes that exceed 16 MiB, the letter shows the first 64 KiB and their number, and [`Dlq::captured_bytes`]
    /// returns all. They are not parsed as JSON.
    ///
    /// The position makes the capture idempotent: while the letter waits or its job runs, capturing
    /// it again adds no letter. A letter that was recovered or discarded opens again.
    pub fn new(
        source: impl Into<String>,
        position: impl Into<String>,
        queue: impl Into<String>,
        kind: impl Into<String>,
        raw: impl Into<Vec<u8>>,
    ) -> ForeignFailure {
        ForeignFailure {
            source: source.into(),
            position: position.into(),
            queue: queue.into(),
            kind: kind.into(),
            raw: raw.into(),
            ..ForeignFailure::default()
        }
    }

    setters! {
        /// Sets the content type of the bytes. Defaults to `application/json`.
        pub fn content_type(self, content_type: impl Into<String>) =>
            self.content_type = Some(clip(content_type.into(), 1024));

        /// Adds a header of the event.
        ///
        /// The job of the letter carries the headers, and `redrive-source` and `redrive-position` with
        /// where the event came from, if all fit into 64 KiB.
        pub fn header(self, name: impl Into<String>, value: impl Into<String>) =>
            self.headers.insert(clip(name.into(), 1024), clip(value.into(), 8192));
    }

    /// Sets the error: a class to group by and a message.
    pub fn error(mut self, class: impl Into<String>, message: impl Into<String>) -> ForeignFailure {
        self.error_class = Some(clip(class.into(), 1024));
        self.error_message = Some(clip(message.into(), 8192));
        self
    }

    setters! {
        /// Sets the error detail, such as a backtrace or a response.
        pub fn detail(self, detail: impl Into<String>) =>
            self.error_detail = Some(clip(detail.into(), 65536));

        /// Sets the group key that the job gets when the letter is redriven: 1 to 200 bytes.
        pub fn group_key(self, key: impl Into<String>) => self.group_key = Some(key.into());

        /// Sets the key of the failure group, instead of the message. Keeps at most 256 characters.
        pub fn failure_key(self, key: impl Into<String>) => self.failure_key = Some(key.into());

        /// Sets the past of an exported letter. A new letter keeps it; a position that was captured
        /// before ignores it. Requires the role `operator`.
        pub fn past(self, past: LetterPast) => self.letter = Some(Box::new(past));
    }

    /// Returns its bytes, with those of the texts that may be as large.
    fn size(&self) -> usize {
        self.raw.len() + self.source.len() + self.position.len() + self.kind.len()
    }

    /// Checks the failure without sending it.
    ///
    /// # Errors
    /// *Invalid* when the queue is no name, a text contains NUL, or the bytes exceed [`MAX_CAPTURE_BYTES`]. The database
    /// checks the rest: the kind, the headers, the group key and the past.
    pub fn check(&self) -> Result<()> {
        self.line().map(drop)
    }

    /// Checks the failure and returns what its statement takes.
    fn line(&self) -> Result<Json> {
        name::check("queue", &self.queue)?;
        let bytes = self.size();
        if bytes > MAX_CAPTURE_BYTES {
            return Err(Error::invalid(format!(
                "the captured bytes, with their source, position and kind, are {bytes} bytes; the limit is {MAX_CAPTURE_BYTES}"
            )));
        }
        Json::large("a capture", self)
    }
}

impl Dlq<'_> {
    /// Captures one failure, once per position of its source.
    ///
    /// If the letter of the position was recovered or discarded, the capture is a new failure of
    /// it: the letter opens again and counts as a death.
    ///
    /// # Errors
    /// *Invalid* if [`ForeignFailure::check`] fails, the kind is no name, the headers exceed 64 KiB, or the group key is
    /// not 1 to 200 bytes; otherwise if the database fails. Repeating the call is safe.
    pub fn capture(&self, foreign: &ForeignFailure) -> Result<CaptureOutcome> {
        let outcome = self.capture_many([foreign])?.pop();
        outcome.ok_or_else(|| Error::unavailable("could not capture a failure: no answer"))
    }
}
