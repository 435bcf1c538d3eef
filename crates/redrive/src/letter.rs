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
use std::time::SystemTime;

use postgres::Row;
use serde_json::value::RawValue;
use uuid::Uuid;

use crate::database::Database;
use crate::error::{Error, Result};
use crate::event::{LetterEvent, events};
use crate::filter::Letters;
use crate::group::GroupId;
use crate::history::{AttemptRecord, attempts};
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
    /// A long one is kept once for the letters of a failure group whose details begin alike.
    pub error_detail: Option<String>,
    /// Whether the detail is one that its failure group shares.
    pub detail_is_shared: bool,
    /// Its failure group: letters that died of the same thing.
    pub group: GroupId,
    /// The payload, unless it was captured and is not JSON.
    pub payload: Option<Box<RawValue>>,
    /// The bytes of a captured failure.
    pub raw: Option<Vec<u8>>,
    /// What the bytes are.
    pub content_type: Option<String>,
    /// The headers of a captured failure: a JSON object.
    pub headers: Option<Box<RawValue>>,
    /// Where a captured failure came from.
    pub source: Option<String>,
    /// Its position there.
    pub position: Option<String>,
    /// How often that position was captured.
    pub seen: u64,
    /// The priority it is redriven with.
    pub priority: i16,
    /// Attempts made in the last generation.
    pub attempts: u32,
    /// Attempts it has in each generation.
    pub max_attempts: u32,
    /// How often it had been redriven when it died last.
    pub generation: u32,
    /// How often it has died.
    pub deaths: u32,
    /// How often in a row it died of the same thing after a person redrove it.
    pub alike: u32,
    /// How often its payload was edited.
    pub edits: u32,
    /// Its attempts: the oldest and the newest ones, over all generations.
    pub history: Vec<AttemptRecord>,
    /// What happened to it besides: the oldest and the newest.
    pub events: Vec<LetterEvent>,
    /// The redrive run that sent it back last.
    pub run: Option<i64>,
    /// The policy that sent it back last.
    pub policy: Option<i64>,
    /// The worker that saw it die.
    pub worker: Option<Uuid>,
    /// The host of that worker.
    pub host: Option<String>,
    /// The version of the program on it.
    pub version: Option<String>,
    /// The process of that worker.
    pub pid: Option<u32>,
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

impl Database {
    /// Lists letters, the newest death first.
    ///
    /// # Errors
    /// When the database refuses or does not answer.
    pub fn letters(&self, which: &Letters) -> Result<Vec<Letter>> {
        let filter = which.filter()?;
        let after = which.after.map(JobId::get);
        let limit = which.most(50);
        self.call_bulk("list letters", move |session| {
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
        self.call_bulk("count letters", move |session| {
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
    let history: JsonText = row.get("history");
    let headers: Option<JsonText> = row.get("headers");
    let unsigned = |column| row.get::<_, i32>(column).unsigned_abs();
    Ok(Letter {
        id: JobId::new(row.get("id")),
        queue: row.get("queue"),
        kind: row.get("kind"),
        state: row.get::<_, &str>("state").parse()?,
        reason: row.get::<_, &str>("reason").parse()?,
        error_class: row.get("error_class"),
        error_message: row.get("error_message"),
        error_detail: row.get("error_detail"),
        detail_is_shared: row.get::<_, Option<i64>>("detail_id").is_some(),
        group: GroupId::new(row.get("group_id")),
        payload: payload.map(|payload| payload.raw_value()).transpose()?,
        raw: row.get("raw"),
        content_type: row.get("content_type"),
        headers: headers.map(|headers| headers.raw_value()).transpose()?,
        source: row.get("source"),
        position: row.get("position"),
        seen: row.get::<_, i64>("seen").unsigned_abs(),
        priority: row.get("priority"),
        attempts: unsigned("attempts"),
        max_attempts: unsigned("max_attempts"),
        generation: unsigned("generation"),
        deaths: unsigned("deaths"),
        alike: u32::from(row.get::<_, i16>("alike").unsigned_abs()),
        edits: unsigned("edits"),
        history: attempts(&history)?,
        events: events(&row.get("events"))?,
        run: row.get("run_id"),
        policy: row.get("policy_id"),
        worker: row.get("worker_id"),
        host: row.get("host"),
        version: row.get("version"),
        pid: row.get::<_, Option<i32>>("pid").map(i32::cast_unsigned),
        discard_reason: row.get("discard_reason"),
        enqueued_at: row.get("enqueued_at"),
        died_at: row.get("died_at"),
        changed_at: row.get("changed_at"),
    })
}
