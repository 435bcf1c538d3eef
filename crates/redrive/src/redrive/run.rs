//! Redrive runs: a redrive as a durable operation, which survives whoever drives it.

use std::fmt;
use std::num::NonZeroU32;
use std::str::FromStr;
use std::time::SystemTime;

use postgres::Row;
use serde_json::value::RawValue;
use uuid::Uuid;

use super::drive::{DRIVER_LEASE_MS, RunDriver};
use super::{RedriveOptions, Skip, Unserved};
use crate::act::Act;
use crate::database::Database;
use crate::error::{Error, Result};
use crate::filter::Letters;
use crate::payload::JsonText;
use crate::session::Session;
use crate::sql;

/// The letters a second unless told otherwise.
const PER_SECOND: NonZeroU32 = NonZeroU32::MIN.saturating_add(99);
/// The most letters a second that a rate may ask for.
const FASTEST: u32 = 1_000_000;

/// The id of a redrive run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RunId(i64);

impl RunId {
    /// The run with this number.
    pub fn new(id: i64) -> RunId {
        RunId(id)
    }

    /// Its number.
    pub fn get(self) -> i64 {
        self.0
    }
}

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for RunId {
    type Err = Error;

    fn from_str(text: &str) -> Result<RunId> {
        text.parse().map(RunId).map_err(|_| {
            Error::invalid(format!(
                "`{}` is not the number of a run",
                text.escape_debug()
            ))
        })
    }
}

/// How fast a run goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rate {
    /// So many letters a second.
    PerSecond(NonZeroU32),
    /// As fast as the database takes them.
    Unthrottled,
}

/// How a run goes.
///
/// ```
/// use redrive::{Rate, RedriveOptions, RunOptions};
///
/// let options = RunOptions::new()
///     .canary(10)
///     .rate(Rate::Unthrottled)
///     .letters(RedriveOptions::new().priority(-10));
/// ```
#[derive(Clone, Debug)]
pub struct RunOptions {
    letters: RedriveOptions,
    rate: Rate,
    canary: u32,
}

impl Default for RunOptions {
    fn default() -> RunOptions {
        RunOptions::new()
    }
}

impl RunOptions {
    /// A hundred letters a second, without a canary.
    pub fn new() -> RunOptions {
        RunOptions {
            letters: RedriveOptions::new(),
            rate: Rate::PerSecond(PER_SECOND),
            canary: 0,
        }
    }

    /// How the letters go back.
    #[must_use]
    pub fn letters(mut self, letters: RedriveOptions) -> RunOptions {
        self.letters = letters;
        self
    }

    /// How fast. Defaults to a hundred a second.
    #[must_use]
    pub fn rate(mut self, rate: Rate) -> RunOptions {
        self.rate = rate;
        self
    }

    /// So many go first and alone, and the run waits for their outcomes. While they recover it
    /// ramps up, in stages of four and sixteen times as many, each awaited, and then to the full
    /// rate. When more than a tenth of a stage die again, or later of the last outcomes, the run
    /// halts by itself. Defaults to 0: no canary, and no halt.
    #[must_use]
    pub fn canary(mut self, letters: u32) -> RunOptions {
        self.canary = letters;
        self
    }
}

/// Where a run is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RunState {
    /// It goes on as soon as somebody drives it.
    Running,
    /// An operator paused it.
    Paused,
    /// It stopped by itself, because letters died again. Only an explicit resume goes on.
    Halted,
    /// An operator ended it.
    Cancelled,
    /// Every member was tried. Jobs of it may still run.
    Finished,
}

impl RunState {
    /// Every state.
    pub const ALL: [RunState; 5] = [
        RunState::Running,
        RunState::Paused,
        RunState::Halted,
        RunState::Cancelled,
        RunState::Finished,
    ];

    /// The word for it in the database and in the CLI.
    pub fn as_str(self) -> &'static str {
        match self {
            RunState::Running => "running",
            RunState::Paused => "paused",
            RunState::Halted => "halted",
            RunState::Cancelled => "cancelled",
            RunState::Finished => "finished",
        }
    }
}

impl fmt::Display for RunState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for RunState {
    type Err = Error;

    fn from_str(text: &str) -> Result<RunState> {
        RunState::ALL
            .into_iter()
            .find(|state| state.as_str() == text)
            .ok_or_else(|| {
                Error::invalid(format!("`{}` is not a state of a run", text.escape_debug()))
            })
    }
}

/// A redrive run, and what became of its letters so far. The numbers are exact.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RedriveRun {
    /// Its id.
    pub id: RunId,
    /// Where it is in its life.
    pub state: RunState,
    /// Which letters it was made of, as JSON.
    pub filter: Box<RawValue>,
    /// Who made it.
    pub person: Option<String>,
    /// Why.
    pub why: Option<String>,
    /// The queue its letters go to, when not their own.
    pub to_queue: Option<String>,
    /// Their priority, when not their own.
    pub priority: Option<i16>,
    /// How fast it goes.
    pub rate: Rate,
    /// How many go first and alone; 0: no canary.
    pub canary: u64,
    /// The stage that it is in, from 0, and up to which member; `None`: to the end.
    pub stage: u32,
    /// See above.
    pub stage_to: Option<u64>,
    /// Whether somebody drives it at this moment.
    pub is_driven: bool,
    /// Its members.
    pub total: u64,
    /// Members that were tried.
    pub tried: u64,
    /// Of them, those that were sent back.
    pub sent: u64,
    /// Of them, those that were not; see [`Database::run_skips`].
    pub skipped: u64,
    /// Of those sent: done.
    pub recovered: u64,
    /// Of those sent: died again of the same thing.
    pub died_alike: u64,
    /// Of those sent: died again of something else.
    pub died_differently: u64,
    /// Of those sent: still live.
    pub still_running: u64,
    /// Why it halted by itself.
    pub halted_because: Option<String>,
    /// When it was made.
    pub created_at: SystemTime,
    /// When its first letter went.
    pub started_at: Option<SystemTime>,
    /// When it ended.
    pub ended_at: Option<SystemTime>,
}

/// A run that was made.
#[derive(Debug)]
#[non_exhaustive]
pub struct CreatedRun {
    /// Its id.
    pub id: RunId,
    /// How many letters it has.
    pub letters: u64,
    /// Where letters will go that no live worker serves now.
    pub unserved: Vec<Unserved>,
}

/// What a pause, resume or cancel found and left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RunChange {
    /// The state before.
    pub was: RunState,
    /// The state now; the same when there was nothing to change.
    pub became: RunState,
}

/// Who drives a run that is made.
enum First {
    Anybody,
    Me(Uuid),
}

impl Database {
    /// Makes a redrive run of the letters that match now, and leaves it to the workers to drive:
    /// any worker of any queue does. `None`: no letter matches.
    ///
    /// # Errors
    /// *Invalid* when an option is out of range or a force has no reason; when the database
    /// refuses or does not answer within a minute.
    pub fn create_run(
        &self,
        which: &Letters,
        options: &RunOptions,
        act: &Act,
    ) -> Result<Option<CreatedRun>> {
        self.create(which, options, act, &First::Anybody)
    }

    /// Makes a redrive run and its driver: the caller [drives](RunDriver::step) it, and when it
    /// goes away a worker takes the run up.
    ///
    /// # Errors
    /// As [`Database::create_run`].
    pub fn start_run(
        &self,
        which: &Letters,
        options: &RunOptions,
        act: &Act,
    ) -> Result<Option<(CreatedRun, RunDriver)>> {
        let driver = Uuid::new_v4();
        let created = self.create(which, options, act, &First::Me(driver))?;
        Ok(created.map(|run| {
            let driver = RunDriver::new(self, run.id, driver, 1);
            (run, driver)
        }))
    }

    fn create(
        &self,
        which: &Letters,
        options: &RunOptions,
        act: &Act,
        first: &First,
    ) -> Result<Option<CreatedRun>> {
        const DOING: &str = "make a redrive run";
        which.refuse_after()?;
        let how = options.letters.parameters(act)?;
        let rate = match options.rate {
            Rate::Unthrottled => None,
            Rate::PerSecond(rate) if rate.get() <= FASTEST => Some(rate.get().cast_signed()),
            Rate::PerSecond(rate) => {
                return Err(Error::invalid(format!(
                    "a rate of {rate} letters a second is over {FASTEST}"
                )));
            }
        };
        let unserved = self.unserved(which, &options.letters)?;
        let filter = which.filter()?;
        let most = which
            .limit
            .map(|limit| i64::try_from(limit).unwrap_or(i64::MAX));
        let canary = i64::from(options.canary);
        let driver = match first {
            First::Anybody => None,
            First::Me(driver) => Some(*driver),
        };
        let act = act.clone();
        let (id, letters) = self.call_bulk(DOING, move |session| {
            let row = session.query_one(
                DOING,
                &sql::CREATE_RUN,
                &[
                    &filter,
                    &act.reason(),
                    &act.by(),
                    &how.to_queue,
                    &how.priority,
                    &how.max_attempts,
                    &how.forced,
                    &most,
                    &rate,
                    &canary,
                    &driver,
                    &DRIVER_LEASE_MS,
                ],
            )?;
            let id: Option<i64> = row.get("id");
            Ok((id, row.get::<_, i64>("letters").unsigned_abs()))
        })?;
        Ok(id.map(|id| CreatedRun {
            id: RunId(id),
            letters,
            unserved,
        }))
    }

    /// The newest redrive runs, at most so many.
    ///
    /// # Errors
    /// When the database refuses or does not answer.
    pub fn runs(&self, most: u32) -> Result<Vec<RedriveRun>> {
        self.call("list redrive runs", move |session| {
            runs(session, None, i64::from(most))
        })
    }

    /// One redrive run.
    ///
    /// # Errors
    /// When the database refuses or does not answer.
    pub fn run(&self, id: RunId) -> Result<Option<RedriveRun>> {
        self.call("show a redrive run", move |session| {
            Ok(runs(session, Some(id), 1)?.pop())
        })
    }

    /// Why members of a run were not sent back, and how many; the most first.
    ///
    /// # Errors
    /// When the database refuses or does not answer within a minute: it reads all members.
    pub fn run_skips(&self, id: RunId) -> Result<Vec<(Skip, u64)>> {
        self.call_bulk("count skipped letters", move |session| {
            let doing = format!("count the skipped letters of run {id}");
            let rows = session.query(&doing, &sql::RUN_SKIPS, &[&id.get()])?;
            Ok(rows
                .iter()
                .map(|row| {
                    let word: &str = row.get("outcome");
                    let word = word.strip_prefix("skipped_").unwrap_or(word);
                    (Skip::of(word), row.get::<_, i64>("letters").unsigned_abs())
                })
                .collect())
        })
    }

    /// Pauses a run: its driver stops with the batch it is at. `None`: there is no such run.
    ///
    /// # Errors
    /// When the database refuses or does not answer.
    pub fn pause_run(&self, id: RunId, act: &Act) -> Result<Option<RunChange>> {
        self.change_run(id, "pause", act)
    }

    /// Lets a paused or halted run go on: whoever finds it drives it. One that had halted begins
    /// with its canary again. `None`: there is no such run.
    ///
    /// # Errors
    /// When the database refuses or does not answer.
    pub fn resume_run(&self, id: RunId, act: &Act) -> Result<Option<RunChange>> {
        self.change_run(id, "resume", act)
    }

    /// Ends a run: what was sent is sent, the rest stays open. `None`: there is no such run.
    ///
    /// # Errors
    /// When the database refuses or does not answer.
    pub fn cancel_run(&self, id: RunId, act: &Act) -> Result<Option<RunChange>> {
        self.change_run(id, "cancel", act)
    }

    fn change_run(&self, id: RunId, verb: &'static str, act: &Act) -> Result<Option<RunChange>> {
        let act = act.clone();
        self.call("change a redrive run", move |session| {
            let row = session.query_one(
                &format!("{verb} redrive run {id}"),
                &sql::CHANGE_RUN,
                &[&id.get(), &verb, &act.reason(), &act.by()],
            )?;
            let states: (Option<&str>, Option<&str>) = (row.get("was"), row.get("became"));
            match states {
                (Some(was), Some(became)) => Ok(Some(RunChange {
                    was: was.parse()?,
                    became: became.parse()?,
                })),
                _ => Ok(None),
            }
        })
    }
}

fn runs(session: &mut Session, id: Option<RunId>, most: i64) -> Result<Vec<RedriveRun>> {
    let rows = session.query(
        "list redrive runs",
        &sql::RUNS,
        &[&id.map(RunId::get), &most],
    )?;
    rows.iter().map(run).collect()
}

fn run(row: &Row) -> Result<RedriveRun> {
    let count = |column: &str| row.get::<_, i64>(column).unsigned_abs();
    let filter: JsonText = row.get("filter");
    let rate: Option<i32> = row.get("rate");
    Ok(RedriveRun {
        id: RunId(row.get("id")),
        state: row.get::<_, &str>("state").parse()?,
        filter: filter.raw_value()?,
        person: row.get("person"),
        why: row.get("why"),
        to_queue: row.get("to_queue"),
        priority: row.get("priority"),
        rate: rate
            .and_then(|rate| NonZeroU32::new(rate.unsigned_abs()))
            .map_or(Rate::Unthrottled, Rate::PerSecond),
        canary: count("canary"),
        stage: row.get::<_, i32>("stage").unsigned_abs(),
        stage_to: row.get::<_, Option<i64>>("stage_to").map(i64::unsigned_abs),
        is_driven: row.get("is_driven"),
        total: count("total"),
        tried: count("cursor"),
        sent: count("sent"),
        skipped: count("skipped"),
        recovered: count("recovered"),
        died_alike: count("died_alike"),
        died_differently: count("died_differently"),
        still_running: count("still_running"),
        halted_because: row.get("halted_because"),
        created_at: row.get("created_at"),
        started_at: row.get("started_at"),
        ended_at: row.get("ended_at"),
    })
}
