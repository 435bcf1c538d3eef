//! Dead letters: what failed for good, with its whole story.
//!
//! The story of a letter: a deploy breaks a handler, its jobs fail, back off and fail again until
//! their attempts are used up, and each becomes a letter, *open*. Somebody reads why, fixes the
//! handler, and redrives: the letter is *redriving* while its job, of the same id, is live again
//! with a fresh budget. It is *recovered* when the job is done. Dies the job again, the same
//! letter is open again, one generation on. What nobody wants any more is *discarded*. Nothing
//! else takes a letter away, and no open letter is ever deleted.

use std::fmt;
use std::str::FromStr;
use std::time::{Duration, SystemTime};

use postgres::Row;
use serde::Deserialize;
use serde_json::value::RawValue;
use uuid::Uuid;

use crate::database::Database;
use crate::error::{Error, Result};
use crate::filter::Letters;
use crate::job::JobId;
use crate::payload::{Json, JsonText};
use crate::reason::Reason;
use crate::session::Session;
use crate::sql;

/// Where a letter is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LetterState {
    /// It waits for somebody. In by death; out by redrive, discard.
    Open,
    /// Its job is live again. In by redrive; out when the job is done or dies.
    Redriving,
    /// Its job was done after a redrive. Deleted by prune, by age.
    Recovered,
    /// An operator closed it for good. Deleted by prune, by age.
    Discarded,
    /// It died the same way after too many redrives. Only an explicit force moves it.
    Quarantined,
}

impl LetterState {
    /// Every state.
    pub const ALL: [LetterState; 5] = [
        LetterState::Open,
        LetterState::Redriving,
        LetterState::Recovered,
        LetterState::Discarded,
        LetterState::Quarantined,
    ];

    /// The word for it in the database, in metrics and in the CLI.
    pub fn as_str(self) -> &'static str {
        match self {
            LetterState::Open => "open",
            LetterState::Redriving => "redriving",
            LetterState::Recovered => "recovered",
            LetterState::Discarded => "discarded",
            LetterState::Quarantined => "quarantined",
        }
    }
}

impl fmt::Display for LetterState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for LetterState {
    type Err = Error;

    fn from_str(text: &str) -> Result<LetterState> {
        LetterState::ALL
            .into_iter()
            .find(|state| state.as_str() == text)
            .ok_or_else(|| {
                let known = LetterState::ALL.map(LetterState::as_str).join(", ");
                Error::invalid(format!(
                    "`{}` is not a state; there are {known}",
                    text.escape_debug()
                ))
            })
    }
}

/// One attempt in the history of a job or letter.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct AttemptRecord {
    /// The generation it belongs to: how often the job had been redriven.
    pub generation: u32,
    /// Its number in the generation, from 1.
    pub attempt: u32,
    /// `failed`, or the reason it killed the job for.
    pub outcome: String,
    /// How long it ran, in milliseconds.
    pub run_ms: Option<u64>,
    /// When it ended, by the database's clock, as ISO 8601.
    pub ended_at: Option<String>,
    /// The class of its error.
    pub error_class: Option<String>,
    /// The message of its error, cut to 1,000 bytes.
    pub error_message: Option<String>,
    /// The worker that ran it.
    pub worker: Option<String>,
    /// The host of that worker.
    pub host: Option<String>,
    /// The version of the program on it.
    pub version: Option<String>,
}

/// A dead letter.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Letter {
    /// The id of the job, and of the letter.
    pub id: JobId,
    /// The queue it died in, and goes back to.
    pub queue: String,
    /// The kind of the job.
    pub kind: String,
    /// Where it is in its life.
    pub state: LetterState,
    /// Why it died last.
    pub reason: Reason,
    /// The class of the last error: a type's name, or what the handler named it.
    pub error_class: String,
    /// The message of the last error.
    pub error_message: String,
    /// The cause chain and the backtrace of the last error, head and tail when they were long.
    pub error_detail: Option<String>,
    /// The payload, unless it was captured and is not JSON.
    pub payload: Option<Box<RawValue>>,
    /// The bytes of a captured failure.
    pub raw: Option<Vec<u8>>,
    /// What the bytes are.
    pub content_type: Option<String>,
    /// The headers of a captured failure: a JSON object, as a rule.
    pub headers: Option<Box<RawValue>>,
    /// Where a captured failure came from.
    pub source: Option<String>,
    /// Its position there.
    pub position: Option<String>,
    /// The priority it is redriven with.
    pub priority: i16,
    /// Attempts made in the last generation.
    pub attempts: u32,
    /// Attempts it has in each generation.
    pub max_attempts: u32,
    /// How often it had been redriven when it died last.
    pub generation: u32,
    /// Its attempts: the oldest and the newest ones, over all generations.
    pub history: Vec<AttemptRecord>,
    /// The worker that saw it die.
    pub worker: Option<Uuid>,
    /// The host of that worker.
    pub host: Option<String>,
    /// The version of the program on it.
    pub version: Option<String>,
    /// Why an operator discarded it.
    pub discard_reason: Option<String>,
    /// When the job was first enqueued.
    pub enqueued_at: SystemTime,
    /// When it died last.
    pub died_at: SystemTime,
    /// When its state changed last.
    pub changed_at: SystemTime,
}

/// How many letters a filter means.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LetterCount {
    /// All of them.
    pub letters: u64,
    /// Those that a redrive would send back: open, with a payload that is JSON.
    pub redrivable: u64,
}

/// How long a call on letters may take: they can be many.
pub(crate) const LETTERS_TIMEOUT: Duration = Duration::from_mins(1);

impl Database {
    /// Lists letters, the newest death first.
    ///
    /// # Errors
    /// When the database refuses or does not answer.
    pub fn letters(&self, which: &Letters) -> Result<Vec<Letter>> {
        let filter = which.filter()?;
        let after = which.after.map(JobId::get);
        let limit = which.most(50);
        self.call_within("list letters", LETTERS_TIMEOUT, move |session| {
            let rows = session.query("list letters", &sql::LETTERS, &[&filter, &after, &limit])?;
            rows.iter().map(letter).collect()
        })
    }

    /// Counts the letters that are meant, without reading them; the limit does not count.
    ///
    /// # Errors
    /// *Invalid* with [`Letters::after`], which is for listing; when the database refuses or does
    /// not answer within a minute: it counts rows.
    pub fn count_letters(&self, which: &Letters) -> Result<LetterCount> {
        which.refuse_after()?;
        let filter = which.filter()?;
        self.call_within("count letters", LETTERS_TIMEOUT, move |session| {
            let rows = session.query("count letters", &sql::COUNT_LETTERS, &[&filter])?;
            let count = |column| {
                rows.first()
                    .map_or(0, |row| row.get::<_, i64>(column).unsigned_abs())
            };
            Ok(LetterCount {
                letters: count("letters"),
                redrivable: count("redrivable"),
            })
        })
    }

    /// One letter.
    ///
    /// # Errors
    /// When the database refuses or does not answer.
    pub fn letter(&self, id: JobId) -> Result<Option<Letter>> {
        Ok(self.letters(&Letters::ids([id]))?.pop())
    }
}

/// The first letter that a filter means, as a session sees it.
pub(crate) fn read(session: &mut Session, filter: &Json) -> Result<Option<Letter>> {
    let nowhere: Option<i64> = None;
    let rows = session.query("read a letter", &sql::LETTERS, &[filter, &nowhere, &1_i64])?;
    rows.first().map(letter).transpose()
}

fn letter(row: &Row) -> Result<Letter> {
    let payload: Option<JsonText> = row.get("payload");
    let headers: Option<JsonText> = row.get("headers");
    let history: JsonText = row.get("history");
    Ok(Letter {
        id: JobId::new(row.get("id")),
        queue: row.get("queue"),
        kind: row.get("kind"),
        state: row.get::<_, &str>("state").parse()?,
        reason: row.get::<_, &str>("reason").parse()?,
        error_class: row.get("error_class"),
        error_message: row.get("error_message"),
        error_detail: row.get("error_detail"),
        payload: payload.map(|payload| payload.raw_value()).transpose()?,
        raw: row.get("raw"),
        content_type: row.get("content_type"),
        headers: headers.map(|headers| headers.raw_value()).transpose()?,
        source: row.get("source"),
        position: row.get("position"),
        priority: row.get("priority"),
        attempts: row.get::<_, i32>("attempts").unsigned_abs(),
        max_attempts: row.get::<_, i32>("max_attempts").unsigned_abs(),
        generation: row.get::<_, i32>("generation").unsigned_abs(),
        history: attempts(&history)?,
        worker: row.get("worker_id"),
        host: row.get("host"),
        version: row.get("version"),
        discard_reason: row.get("discard_reason"),
        enqueued_at: row.get("enqueued_at"),
        died_at: row.get("died_at"),
        changed_at: row.get("changed_at"),
    })
}

/// Reads a stored history.
pub(crate) fn attempts(history: &JsonText) -> Result<Vec<AttemptRecord>> {
    serde_json::from_slice(&history.0).map_err(|error| {
        Error::invalid("the stored history of the job cannot be read").caused_by(error)
    })
}
