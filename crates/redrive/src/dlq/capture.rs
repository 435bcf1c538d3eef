//! Captures failures from outside redrive, such as a Kafka event or a webhook, as dead letters.

use std::collections::BTreeMap;

use postgres::Row;
use postgres::error::SqlState;

use crate::db::session::{Parameter, Session};
use crate::db::sql;
use crate::dlq::handle::Dlq;
use crate::error::{Error, Result};
use crate::job::error_report::clip;
use crate::job::job::JobId;
use crate::job::name;
use crate::job::payload::Json;

/// The largest capture, in bytes: 16 MiB.
pub const MAX_CAPTURE_BYTES: usize = 16 * 1024 * 1024;

/// The limits of the schema for headers, as the server prints them, and for group keys.
const MAX_HEADER_BYTES: usize = 64 * 1024;
const MAX_GROUP_KEY_BYTES: usize = 200;

/// The characters that the schema keeps of a kind that is longer than a name; a hash follows.
const KEPT_CHARS: usize = 67;

/// How many captures one statement writes.
const BATCH: usize = 1000;
/// The approximate bytes per statement.
const BATCH_BYTES: usize = 8 * 1024 * 1024;

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
#[derive(Clone, Debug)]
pub struct ForeignFailure {
    pub(crate) source: String,
    pub(crate) position: String,
    pub(crate) queue: String,
    pub(crate) kind: String,
    pub(crate) raw: Vec<u8>,
    pub(crate) content_type: String,
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) error_class: String,
    pub(crate) error_message: String,
    pub(crate) error_detail: Option<String>,
    pub(crate) group_key: Option<String>,
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
}

impl CaptureOutcome {
    /// Returns the letter of the position.
    pub fn id(self) -> JobId {
        match self {
            CaptureOutcome::New(id) | CaptureOutcome::Reopened(id) | CaptureOutcome::Known(id) => {
                id
            }
        }
    }

    fn of(row: &Row) -> CaptureOutcome {
        let id = JobId::new(row.get("id"));
        match (row.get("is_new"), row.get("is_reopened")) {
            (true, _) => CaptureOutcome::New(id),
            (false, true) => CaptureOutcome::Reopened(id),
            (false, false) => CaptureOutcome::Known(id),
        }
    }
}

impl ForeignFailure {
    ///
    /// Describes a failure: its source, its position there, the queue and kind to redrive
    /// it to, and its bytes.
    ///
    /// A source or kind of more than 100 characters and a position of more than 500 are shortened: the
    /// start, `~` and a hash of the whole. The header `redrive-source`, `redrive-kind` or `redrive-position`
    /// of the letter has the original.
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
            content_type: "application/json".to_owned(),
            headers: BTreeMap::new(),
            error_class: "captured".to_owned(),
            error_message: String::new(),
            error_detail: None,
            group_key: None,
        }
    }

    /// Sets the content type of the bytes. Defaults to `application/json`.
    #[must_use]
    pub fn content_type(mut self, content_type: impl Into<String>) -> ForeignFailure {
        self.content_type = clip(content_type.into(), 1024);
        self
    }

    /// Adds a header of the event.
    #[must_use]
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> ForeignFailure {
        self.headers
            .insert(clip(name.into(), 1024), clip(value.into(), 8192));
        self
    }

    /// Sets the error: a class to group by and a message.
    #[must_use]
    pub fn error(mut self, class: impl Into<String>, message: impl Into<String>) -> ForeignFailure {
        self.error_class = clip(class.into(), 1024);
        self.error_message = clip(message.into(), 8192);
        self
    }

    /// Sets the error detail, such as a backtrace or a response.
    #[must_use]
    pub fn detail(mut self, detail: impl Into<String>) -> ForeignFailure {
        self.error_detail = Some(clip(detail.into(), 65536));
        self
    }

    /// Sets the group key that the job gets when the letter is redriven: 1 to 200 bytes.
    #[must_use]
    pub fn group_key(mut self, key: impl Into<String>) -> ForeignFailure {
        self.group_key = Some(key.into());
        self
    }

    /// Checks the failure without sending it.
    ///
    /// # Errors
    /// *Invalid* when a name is invalid, the source or position contains a NUL character, the bytes
    /// exceed [`MAX_CAPTURE_BYTES`], the headers exceed 64 KiB, or the group key is not 1 to 200
    /// bytes. A long source, position or kind is no error.
    pub fn check(&self) -> Result<()> {
        name::check("queue", &self.queue)?;
        match self.kind.char_indices().nth(name::MAX_NAME_CHARS) {
            None => name::check("kind", &self.kind)?,
            // The server keeps the start and appends a hash.
            Some(_) => {
                let kept: String = self.kind.chars().take(KEPT_CHARS).chain(['~']).collect();
                name::check("kind", &kept)?;
            }
        }
        if self.source.contains('\0') || self.position.contains('\0') {
            return Err(Error::invalid(
                "the source or position of a capture contains NUL",
            ));
        }
        if self.raw.len() > MAX_CAPTURE_BYTES {
            return Err(Error::invalid(format!(
                "the captured bytes are {} bytes; the limit is {MAX_CAPTURE_BYTES}",
                self.raw.len()
            )));
        }
        let headers: usize = self.headers.iter().map(header_bytes).sum();
        if headers > MAX_HEADER_BYTES {
            return Err(Error::invalid(format!(
                "the headers of a capture are {headers} bytes; the limit is {MAX_HEADER_BYTES}"
            )));
        }
        match &self.group_key {
            Some(key) if !(1..=MAX_GROUP_KEY_BYTES).contains(&key.len()) => {
                Err(Error::invalid(format!(
                    "the group key of a capture is {} bytes; it must be 1 to {MAX_GROUP_KEY_BYTES}",
                    key.len()
                )))
            }
            _ => Ok(()),
        }
    }
}

impl Dlq<'_> {
    /// Captures one failure, once per position of its source.
    ///
    /// If the letter of the position was recovered or discarded, the capture is a new failure of
    /// it: the letter opens again and counts as a death.
    ///
    /// # Errors
    /// *Invalid* if [`ForeignFailure::check`] fails; otherwise if the database rejects the
    /// statement or does not answer. Repeating the call is safe.
    pub fn capture(&self, foreign: &ForeignFailure) -> Result<CaptureOutcome> {
        foreign.check()?;
        let headers = Json::of(&foreign.headers)?;
        let foreign = foreign.clone();
        self.db.call("capture a failure", move |session| {
            let doing = format!(
                "capture a failure of `{}` at `{}`",
                foreign.source, foreign.position
            );
            let row = session.query_one(
                &doing,
                &sql::CAPTURE,
                &[
                    &foreign.source,
                    &foreign.position,
                    &foreign.queue,
                    &foreign.kind,
                    &foreign.raw,
                    &foreign.content_type,
                    &headers,
                    &foreign.error_class,
                    &foreign.error_message,
                    &foreign.error_detail,
                    &foreign.group_key,
                ],
            )?;
            Ok(CaptureOutcome::of(&row))
        })
    }

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
        let mut columns = CaptureColumns::default();
        for captured in foreign {
            columns.push(captured)?;
            if columns.raws.len() == BATCH || columns.bytes > BATCH_BYTES {
                captures.extend(self.capture_batch(std::mem::take(&mut columns))?);
            }
        }
        if !columns.raws.is_empty() {
            captures.extend(self.capture_batch(columns)?);
        }
        Ok(captures)
    }

    fn capture_batch(self, mut columns: CaptureColumns) -> Result<Vec<CaptureOutcome>> {
        self.db.call_bulk("capture failures", move |session| {
            match columns.send(session) {
                // The server rejects some JSON that passes here, such as a
                // thousand nested brackets. Without the parsed form it decides
                // for each capture.
                Err(error) if error.is_invalid() => {
                    columns.parsed.fill(None);
                    columns.send(session)
                }
                // A concurrent capture of the same new failures won a deadlock.
                // Nothing was written.
                Err(error) if error.sql_state() == Some(&SqlState::T_R_DEADLOCK_DETECTED) => {
                    columns.send(session)
                }
                answer => answer,
            }
        })
    }
}

/// Returns the bytes of a header as PostgreSQL prints it in a JSON object: `"name": "value", `.
fn header_bytes((name, value): (&String, &String)) -> usize {
    let string = |text: &str| 2 + text.chars().map(char_bytes).sum::<usize>();
    string(name) + 2 + string(value) + 2
}

/// Returns the bytes of a character in a JSON string.
fn char_bytes(c: char) -> usize {
    match c {
        '"' | '\\' | '\n' | '\r' | '\t' | '\u{8}' | '\u{c}' => 2,
        '\0'..='\u{1f}' => 6,
        _ => c.len_utf8(),
    }
}

/// Captures in the form of the statement's parameters.
#[derive(Default)]
struct CaptureColumns {
    sources: Vec<String>,
    positions: Vec<String>,
    queues: Vec<String>,
    kinds: Vec<String>,
    raws: Vec<Vec<u8>>,
    parsed: Vec<Option<Json>>,
    content_types: Vec<String>,
    headers: Vec<Json>,
    error_classes: Vec<String>,
    error_messages: Vec<String>,
    error_details: Vec<Option<String>>,
    group_keys: Vec<Option<String>>,
    bytes: usize,
}

impl CaptureColumns {
    fn push(&mut self, captured: &ForeignFailure) -> Result<()> {
        self.bytes += captured.raw.len();
        self.sources.push(captured.source.clone());
        self.positions.push(captured.position.clone());
        self.queues.push(captured.queue.clone());
        self.kinds.push(captured.kind.clone());
        self.raws.push(captured.raw.clone());
        self.parsed.push(
            std::str::from_utf8(&captured.raw)
                .ok()
                .and_then(|text| Json::parse(text).ok()),
        );
        self.content_types.push(captured.content_type.clone());
        self.headers.push(Json::of(&captured.headers)?);
        self.error_classes.push(captured.error_class.clone());
        self.error_messages.push(captured.error_message.clone());
        self.error_details.push(captured.error_detail.clone());
        self.group_keys.push(captured.group_key.clone());
        Ok(())
    }

    fn send(&self, session: &mut Session) -> Result<Vec<CaptureOutcome>> {
        let parameters: [Parameter<'_>; 12] = [
            &self.sources,
            &self.positions,
            &self.queues,
            &self.kinds,
            &self.raws,
            &self.parsed,
            &self.content_types,
            &self.headers,
            &self.error_classes,
            &self.error_messages,
            &self.error_details,
            &self.group_keys,
        ];
        let rows = session.query("capture failures", &sql::CAPTURE_LETTERS, &parameters)?;
        if rows.len() != self.raws.len() {
            return Err(Error::unavailable(
                "could not capture failures: the database returned a wrong number of rows",
            ));
        }
        Ok(rows.iter().map(CaptureOutcome::of).collect())
    }
}
