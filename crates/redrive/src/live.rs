//! Live jobs, one at a time, for an operator: show, cancel, set the priority.

use std::fmt;
use std::time::SystemTime;

use serde_json::value::RawValue;
use uuid::Uuid;

use crate::database::Database;
use crate::error::{Error, Result};
use crate::history::{AttemptRecord, attempts};
use crate::job::{JobId, check_priority};
use crate::payload::JsonText;
use crate::sql;

/// Where a live job is; the place is its state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Place {
    /// It can be claimed now.
    Ready,
    /// Its time has not come: scheduled, backing off or snoozed.
    Delayed,
    /// A worker has it.
    Leased,
}

impl Place {
    /// The word for it in the database, in metrics and in the CLI.
    pub fn as_str(self) -> &'static str {
        match self {
            Place::Ready => "ready",
            Place::Delayed => "delayed",
            Place::Leased => "leased",
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// A live job, as an operator sees it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct LiveJob {
    /// Its id.
    pub id: JobId,
    /// Its queue.
    pub queue: String,
    /// Its kind.
    pub kind: String,
    /// Where it is.
    pub place: Place,
    /// Its priority.
    pub priority: i16,
    /// Its payload.
    pub payload: Box<RawValue>,
    /// Attempts charged in this generation, the running one included.
    pub attempts: u32,
    /// Attempts it has.
    pub max_attempts: u32,
    /// How often it has been redriven.
    pub generation: u32,
    /// How often it lost its worker.
    pub crashes: u32,
    /// Since when it is ready, when it will be, or since when it is leased.
    pub since: SystemTime,
    /// When it was first enqueued.
    pub enqueued_at: SystemTime,
    /// Its failed attempts: the oldest and the newest ones.
    pub history: Vec<AttemptRecord>,
    /// The worker that has it.
    pub worker: Option<Uuid>,
    /// The host of that worker.
    pub host: Option<String>,
}

/// What became of a cancellation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cancelled {
    /// It was ready or delayed: it is a letter now, with the reason `manual`.
    Dead,
    /// It runs: its handler is told, and if it does not succeed it becomes such a letter.
    Asked,
    /// It is not live: done, dead, or it never was.
    NotLive,
}

/// How often a call looks for a job that moves from place to place while it looks.
const LOOKS: usize = 5;

impl Database {
    /// Shows a live job. `None`: it is done, or dead (then there is a [letter](Database::letter)).
    ///
    /// # Errors
    /// When the database refuses or does not answer.
    pub fn job(&self, id: JobId) -> Result<Option<LiveJob>> {
        self.call("show a job", move |session| {
            let rows = session.query(&format!("show job {id}"), &sql::LIVE_JOB, &[&id.get()])?;
            let Some(row) = rows.first() else {
                return Ok(None);
            };
            let payload: JsonText = row.get("payload");
            let history: Option<JsonText> = row.get("history");
            let place = match row.get("state") {
                "ready" => Place::Ready,
                "delayed" => Place::Delayed,
                "leased" => Place::Leased,
                other => {
                    return Err(Error::invalid(format!(
                        "job {id} is in an unknown place, `{other}`"
                    )));
                }
            };
            Ok(Some(LiveJob {
                id,
                queue: row.get("queue"),
                kind: row.get("kind"),
                place,
                priority: row.get("priority"),
                payload: payload.raw_value()?,
                attempts: row.get::<_, i32>("attempt").unsigned_abs(),
                max_attempts: row.get::<_, i32>("max_attempts").unsigned_abs(),
                generation: row.get::<_, i32>("generation").unsigned_abs(),
                crashes: row.get::<_, i16>("crashes").unsigned_abs().into(),
                since: row.get("run_at"),
                enqueued_at: row.get("enqueued_at"),
                history: history.map_or_else(|| Ok(Vec::new()), |history| attempts(&history))?,
                worker: row.get("worker_id"),
                host: row.get("host"),
            }))
        })
    }

    /// Cancels a job: a waiting one at once, a running one by telling its handler.
    ///
    /// # Errors
    /// When the database refuses or does not answer.
    pub fn cancel(&self, id: JobId) -> Result<Cancelled> {
        for _ in 0..LOOKS {
            let what = self.call("cancel a job", move |session| {
                let rows =
                    session.query(&format!("cancel job {id}"), &sql::CANCEL, &[&id.get()])?;
                Ok(rows.first().map(|row| row.get::<_, &str>("what") == "dead"))
            })?;
            match what {
                Some(true) => return Ok(Cancelled::Dead),
                Some(false) => return Ok(Cancelled::Asked),
                // A statement sees one moment: a job that a worker claimed in it was in neither
                // place. If it is still live, look again.
                None if self.job(id)?.is_none() => return Ok(Cancelled::NotLive),
                None => {}
            }
        }
        Err(Error::unavailable(format!(
            "could not cancel job {id}: it keeps moving; try again"
        )))
    }

    /// Changes the priority of a ready or delayed job. `false`: it is leased, or not live.
    ///
    /// # Errors
    /// *Invalid* when the priority is out of range; when the database refuses or does not answer.
    pub fn set_priority(&self, id: JobId, priority: i16) -> Result<bool> {
        check_priority(priority)?;
        self.call("set a priority", move |session| {
            let doing = format!("set the priority of job {id}");
            let rows = session.query(&doing, &sql::SET_PRIORITY, &[&id.get(), &priority])?;
            Ok(!rows.is_empty())
        })
    }
}
