//! Capture: foreign failures (an event of Kafka, a webhook, a row of an outbox) as letters.

use std::collections::BTreeMap;

use crate::captures::MOST_CAPTURED_BYTES;
use crate::database::Database;
use crate::error::{Error, Result};
use crate::failure::clip;
use crate::job::JobId;
use crate::name;
use crate::payload::Json;
use crate::sql;

/// A failure outside of redrive, to be kept as a letter with the reason `captured`.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let db = redrive::connect(&std::env::var("DATABASE_URL")?)?;
/// # db.migrate()?;
/// use redrive::{Capture, Captured};
///
/// let event = Captured::new("kafka:orders", "3/1842", "orders", "order.placed", b"{broken")
///     .error("ParseError", "unexpected end of input");
/// db.capture(&event)?;
/// // The same position again is the same letter.
/// assert!(matches!(db.capture(&event)?, Capture::Known(_)));
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct Captured {
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
}

/// What became of a capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Capture {
    /// It is a letter now.
    New(JobId),
    /// This position was captured before, as this letter; only its count went up.
    Known(JobId),
}

impl Captured {
    /// What failed: where it came from, its position there (which makes the capture idempotent),
    /// the queue and kind it is redriven to, and its bytes, whatever they are.
    pub fn new(
        source: impl Into<String>,
        position: impl Into<String>,
        queue: impl Into<String>,
        kind: impl Into<String>,
        raw: impl Into<Vec<u8>>,
    ) -> Captured {
        Captured {
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
        }
    }

    /// What the bytes are. Defaults to `application/json`.
    #[must_use]
    pub fn content_type(mut self, content_type: impl Into<String>) -> Captured {
        self.content_type = clip(content_type.into(), 1024);
        self
    }

    /// Keeps a header of the event.
    #[must_use]
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Captured {
        self.headers
            .insert(clip(name.into(), 1024), clip(value.into(), 8192));
        self
    }

    /// Why it failed: a class to group by, and a message.
    #[must_use]
    pub fn error(mut self, class: impl Into<String>, message: impl Into<String>) -> Captured {
        self.error_class = clip(class.into(), 1024);
        self.error_message = clip(message.into(), 8192);
        self
    }

    /// A detail of why it failed: a backtrace, a response.
    #[must_use]
    pub fn detail(mut self, detail: impl Into<String>) -> Captured {
        self.error_detail = Some(clip(detail.into(), 65536));
        self
    }

    /// Checks what would be refused, before anything is sent.
    ///
    /// # Errors
    /// *Invalid* when a name is not good, the source or position has a NUL character, or the bytes
    /// are over [`MOST_CAPTURED_BYTES`].
    pub fn check(&self) -> Result<()> {
        name::check("queue", &self.queue)?;
        name::check("kind", &self.kind)?;
        if self.source.contains('\0') || self.position.contains('\0') {
            return Err(Error::invalid(
                "the source or position of a capture has a NUL character",
            ));
        }
        if self.raw.len() > MOST_CAPTURED_BYTES {
            return Err(Error::invalid(format!(
                "a capture of {} bytes is over the limit of {MOST_CAPTURED_BYTES}",
                self.raw.len()
            )));
        }
        Ok(())
    }
}

impl Database {
    /// Records a foreign failure, once per position of its source.
    ///
    /// # Errors
    /// *Invalid* when a name is not good or the source or position has a NUL character; when the
    /// database refuses or does not answer. Repeating the call is safe.
    pub fn capture(&self, foreign: &Captured) -> Result<Capture> {
        foreign.check()?;
        let headers = Json::of(&foreign.headers)?;
        let foreign = foreign.clone();
        self.call("capture a failure", move |session| {
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
                ],
            )?;
            let id = JobId::new(row.get("id"));
            Ok(if row.get("is_new") {
                Capture::New(id)
            } else {
                Capture::Known(id)
            })
        })
    }
}
