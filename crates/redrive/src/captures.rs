//! Captures: foreign failures by the thousand.

use postgres::error::SqlState;

use crate::capture::{Capture, Captured};
use crate::database::Database;
use crate::error::{Error, Result};
use crate::job::JobId;
use crate::payload::Json;
use crate::session::{Parameter, Session};
use crate::sql;

/// The most bytes that one capture may have: 16 MiB. What is larger is not one event.
pub const MOST_CAPTURED_BYTES: usize = 16 * 1024 * 1024;

/// How many captures one statement writes.
const BATCH: usize = 1000;
/// How many bytes one statement carries, about.
const BATCH_BYTES: usize = 8 * 1024 * 1024;

/// Captures in the form of the statement's parameters.
#[derive(Default)]
struct Columns {
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
    bytes: usize,
}

impl Database {
    /// Records foreign failures as [`capture`](Database::capture) does, many at a time, and answers
    /// what became of each, in order.
    ///
    /// # Errors
    /// As [`capture`](Database::capture). All of them are checked before anything is sent; each
    /// batch of up to a thousand is a transaction. Repeating the call is safe.
    pub fn capture_many<'a>(
        &self,
        foreign: impl IntoIterator<Item = &'a Captured>,
    ) -> Result<Vec<Capture>> {
        let foreign: Vec<&Captured> = foreign.into_iter().collect();
        for captured in &foreign {
            captured.check()?;
        }
        let mut captures = Vec::with_capacity(foreign.len());
        let mut columns = Columns::default();
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

    fn capture_batch(&self, mut columns: Columns) -> Result<Vec<Capture>> {
        self.call_bulk("capture failures", move |session| {
            match columns.send(session) {
                // Something passed for JSON here that the server refuses, such as a thousand
                // brackets in each other: let it look at each by itself.
                Err(error) if error.is_invalid() => {
                    columns.parsed.fill(None);
                    columns.send(session)
                }
                // It was ended in favour of another one that met the same new failures, and wrote nothing.
                Err(error) if error.sql_state() == Some(&SqlState::T_R_DEADLOCK_DETECTED) => {
                    columns.send(session)
                }
                answer => answer,
            }
        })
    }
}

impl Columns {
    fn push(&mut self, captured: &Captured) -> Result<()> {
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
        Ok(())
    }

    fn send(&self, session: &mut Session) -> Result<Vec<Capture>> {
        let parameters: [Parameter<'_>; 11] = [
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
        ];
        let rows = session.query("capture failures", &sql::CAPTURE_LETTERS, &parameters)?;
        if rows.len() != self.raws.len() {
            return Err(Error::unavailable(
                "could not capture failures: the answer has another number of rows",
            ));
        }
        Ok(rows
            .iter()
            .map(|row| {
                let id = JobId::new(row.get("id"));
                match row.get("is_new") {
                    true => Capture::New(id),
                    false => Capture::Known(id),
                }
            })
            .collect())
    }
}
