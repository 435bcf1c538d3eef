//! Redrive: letters back into the queue, as jobs with the same id and a fresh budget.
//!
//! One SQL function, `redrive.send_back`, inserts the jobs and changes the letters in one
//! statement, so there is no moment in which a job is in both places or in neither, and two
//! operators at once never make two jobs of one letter. What is called here goes at once, a batch
//! after the other; a [run](crate::RedriveRun) is the same as a durable operation.

mod drive;
mod pace;
mod run;

use std::collections::HashSet;
use std::fmt;
use std::time::SystemTime;

pub use drive::{Driven, RunDriver, Step};
pub(crate) use drive::{Found, find_run};
pub use run::{CreatedRun, Rate, RedriveRun, RunChange, RunId, RunOptions, RunState};

use crate::act::Act;
use crate::database::Database;
use crate::error::{Error, Result};
use crate::filter::Letters;
use crate::group::GroupId;
use crate::job::{JobId, MOST_ATTEMPTS, check_priority};
use crate::name;
use crate::payload::Json;
use crate::session::Session;
use crate::sql;

/// How many letters one statement moves.
const BATCH: u64 = 500;

/// How letters go back, when not just as they are.
///
/// ```
/// use redrive::RedriveOptions;
///
/// let options = RedriveOptions::new().to_queue("orders.slow").priority(-10);
/// ```
#[derive(Clone, Debug, Default)]
pub struct RedriveOptions {
    to_queue: Option<String>,
    priority: Option<i16>,
    max_attempts: Option<u32>,
    force: Force,
}

/// Whether quarantined letters go too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Force {
    #[default]
    No,
    Yes,
}

impl RedriveOptions {
    /// Into the queue that each died in, with its own priority and number of attempts.
    pub fn new() -> RedriveOptions {
        RedriveOptions::default()
    }

    /// Into another queue; from then on it is the letters' own.
    #[must_use]
    pub fn to_queue(mut self, queue: impl Into<String>) -> RedriveOptions {
        self.to_queue = Some(queue.into());
        self
    }

    /// With this priority; a low one lets the live traffic of the queue go first.
    #[must_use]
    pub fn priority(mut self, priority: i16) -> RedriveOptions {
        self.priority = Some(priority);
        self
    }

    /// With so many attempts.
    #[must_use]
    pub fn max_attempts(mut self, attempts: u32) -> RedriveOptions {
        self.max_attempts = Some(attempts);
        self
    }

    /// Quarantined letters too: those that died of the same thing again and again. It needs a
    /// [reason](Act::why).
    #[must_use]
    pub fn force(mut self) -> RedriveOptions {
        self.force = Force::Yes;
        self
    }

    /// The options as parameters, checked.
    fn parameters(&self, act: &Act) -> Result<OptionParameters> {
        if let Some(queue) = &self.to_queue {
            name::check("queue", queue)?;
        }
        if let Some(priority) = self.priority {
            check_priority(priority)?;
        }
        if let Some(attempts) = self.max_attempts
            && !(1..=MOST_ATTEMPTS).contains(&attempts)
        {
            return Err(Error::invalid(format!(
                "max_attempts is {attempts}; it must be 1 to {MOST_ATTEMPTS}"
            )));
        }
        if self.is_forced() && act.reason().is_none() {
            return Err(Error::invalid(
                "to force quarantined letters back needs a reason",
            ));
        }
        Ok(OptionParameters {
            to_queue: self.to_queue.clone(),
            priority: self.priority.map(i32::from),
            max_attempts: self.max_attempts.map(u32::cast_signed),
            forced: self.is_forced(),
        })
    }

    fn is_forced(&self) -> bool {
        self.force == Force::Yes
    }
}

/// [`RedriveOptions`], as the statements take them.
#[derive(Clone, Debug)]
struct OptionParameters {
    to_queue: Option<String>,
    priority: Option<i32>,
    max_attempts: Option<i32>,
    forced: bool,
}

/// What a redrive did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Redriven {
    /// The letters that are jobs again.
    pub redriven: Vec<JobId>,
    /// Those that are not, of the ids that were asked for, and why; and whatever the key of
    /// another job kept back.
    pub skipped: Vec<(JobId, Skip)>,
    /// Where letters went that no live worker served at that moment.
    pub unserved: Vec<Unserved>,
}

/// Why a letter was not redriven.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Skip {
    /// There is no such letter.
    Gone,
    /// It is being redriven, recovered or discarded.
    NotOpen,
    /// It is quarantined: only [force](RedriveOptions::force) moves it.
    Quarantined,
    /// It was captured, and is not JSON: it cannot be a job.
    NoJson,
    /// A live job has its unique key.
    Conflict,
    /// Somebody else had it in hand, or the rest of the filter did not mean it.
    Locked,
}

impl Skip {
    /// The word for it in the database and in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Skip::Gone => "gone",
            Skip::NotOpen => "not_open",
            Skip::Quarantined => "quarantined",
            Skip::NoJson => "no_json",
            Skip::Conflict => "conflict",
            Skip::Locked => "locked",
        }
    }

    fn of(word: &str) -> Skip {
        match word {
            "gone" => Skip::Gone,
            "quarantined" => Skip::Quarantined,
            "no_json" => Skip::NoJson,
            "conflict" => Skip::Conflict,
            "locked" => Skip::Locked,
            _ => Skip::NotOpen,
        }
    }
}

impl fmt::Display for Skip {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Skip::Gone => "there is no such letter",
            Skip::NotOpen => "it is not open",
            Skip::Quarantined => "it is quarantined: only force moves it",
            Skip::NoJson => "it was captured and is not JSON",
            Skip::Conflict => "a live job has its unique key",
            Skip::Locked => "somebody else has it in hand, or the filter does not mean it",
        })
    }
}

/// Letters that no live worker would take: none serves the queue, or none handles the kind.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Unserved {
    /// The queue they go to.
    pub queue: String,
    /// Their kind.
    pub kind: String,
    /// How many they are.
    pub letters: u64,
}

/// What a redrive would do.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Preview {
    /// The letters that would go, by failure group, the largest first.
    pub groups: Vec<PreviewGroup>,
    /// Where letters would go that no live worker serves.
    pub unserved: Vec<Unserved>,
}

impl Preview {
    /// How many letters would go.
    pub fn letters(&self) -> u64 {
        self.groups.iter().map(|group| group.letters).sum()
    }
}

/// Letters of one failure group that would go.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PreviewGroup {
    /// The group.
    pub group: GroupId,
    /// Its queue.
    pub queue: String,
    /// Its kind.
    pub kind: String,
    /// The class of its errors.
    pub error_class: String,
    /// What its messages say, with what differs masked.
    pub title: String,
    /// How many letters of it would go.
    pub letters: u64,
}

impl Database {
    /// Sends open letters back into their queues, the oldest death first.
    ///
    /// Each keeps its id, its history and its priority, and gets all its attempts again. It stops
    /// when nothing is left that matched when it began, or at the limit: a letter that dies again
    /// meanwhile is not taken again. Interrupted, what was redriven is redriven and the rest is
    /// not: call again. Each batch writes its row of the audit in its own transaction.
    ///
    /// # Errors
    /// When the database refuses or does not answer.
    pub fn redrive(&self, which: &Letters, act: &Act) -> Result<Redriven> {
        self.redrive_with(which, &RedriveOptions::new(), act)
    }

    /// The same, with options.
    ///
    /// # Errors
    /// *Invalid* when an option is out of range, or force has no reason; when the database
    /// refuses or does not answer.
    pub fn redrive_with(
        &self,
        which: &Letters,
        options: &RedriveOptions,
        act: &Act,
    ) -> Result<Redriven> {
        const DOING: &str = "redrive letters";
        which.refuse_after()?;
        let how = options.parameters(act)?;
        let mut done = Redriven {
            unserved: self.unserved(which, options)?,
            ..Redriven::default()
        };
        let mut passed: Vec<i64> = Vec::new();
        let mut left = which.limit.unwrap_or(u64::MAX);
        let mut as_of: Option<SystemTime> = None;
        while left > 0 {
            let limit = i64::try_from(left.min(BATCH)).unwrap_or(i64::MAX);
            let (filter, act, how, before) =
                (which.filter()?, act.clone(), how.clone(), passed.clone());
            let (tried, moment) = self.call_bulk(DOING, move |session| {
                let rows = session.query(
                    DOING,
                    &sql::REDRIVE,
                    &[
                        &filter,
                        &as_of,
                        &limit,
                        &before,
                        &act.reason(),
                        &act.by(),
                        &how.to_queue,
                        &how.priority,
                        &how.max_attempts,
                        &how.forced,
                    ],
                )?;
                let tried: Vec<(i64, bool)> = rows
                    .iter()
                    .map(|row| (row.get("id"), row.get::<_, &str>("what") == "sent"))
                    .collect();
                Ok((tried, rows.first().map(|row| row.get("as_of"))))
            })?;
            if tried.is_empty() {
                break;
            }
            as_of = moment;
            for (id, is_sent) in tried {
                if is_sent {
                    left = left.saturating_sub(1);
                    done.redriven.push(JobId::new(id));
                } else {
                    passed.push(id);
                    done.skipped.push((JobId::new(id), Skip::Conflict));
                }
            }
        }
        self.tell_refused(which, options, &mut done)?;
        Ok(done)
    }

    /// What a redrive of these letters would do. Changes nothing; the limit does not count.
    ///
    /// # Errors
    /// When the database refuses or does not answer within a minute: it counts rows.
    pub fn preview_redrive(&self, which: &Letters, options: &RedriveOptions) -> Result<Preview> {
        const DOING: &str = "count what would be redriven";
        which.refuse_after()?;
        let (filter, forced) = (which.filter()?, options.is_forced());
        let groups = self.call_bulk(DOING, move |session| {
            let rows = session.query(DOING, &sql::PREVIEW_REDRIVE, &[&filter, &forced])?;
            Ok(rows
                .iter()
                .map(|row| PreviewGroup {
                    group: GroupId::new(row.get("group_id")),
                    queue: row.get("queue"),
                    kind: row.get("kind"),
                    error_class: row.get("error_class"),
                    title: row.get("title"),
                    letters: row.get::<_, i64>("letters").unsigned_abs(),
                })
                .collect())
        })?;
        Ok(Preview {
            groups,
            unserved: self.unserved(which, options)?,
        })
    }

    fn unserved(&self, which: &Letters, options: &RedriveOptions) -> Result<Vec<Unserved>> {
        let (filter, forced) = (which.filter()?, options.is_forced());
        let to_queue = options.to_queue.clone();
        self.call_bulk("look who serves", move |session| {
            unserved(session, &filter, to_queue.as_deref(), forced)
        })
    }

    /// Why those of the ids that were asked for did not go.
    fn tell_refused(
        &self,
        which: &Letters,
        options: &RedriveOptions,
        done: &mut Redriven,
    ) -> Result<()> {
        const DOING: &str = "ask why letters were not redriven";
        let told: HashSet<i64> = done
            .redriven
            .iter()
            .chain(done.skipped.iter().map(|(id, _)| id))
            .map(|id| id.get())
            .collect();
        let mut left: Vec<i64> = which.asked_ids().to_vec();
        left.retain(|id| !told.contains(id));
        if left.is_empty() {
            return Ok(());
        }
        let (forced, to_queue) = (options.is_forced(), options.to_queue.clone());
        let why = self.call_bulk(DOING, move |session| {
            let rows = session.query(DOING, &sql::REFUSED, &[&left, &forced, &to_queue])?;
            Ok(rows
                .iter()
                .map(|row| (JobId::new(row.get("id")), Skip::of(row.get("what"))))
                .collect::<Vec<_>>())
        })?;
        done.skipped.extend(why);
        Ok(())
    }
}

fn unserved(
    session: &mut Session,
    filter: &Json,
    to_queue: Option<&str>,
    forced: bool,
) -> Result<Vec<Unserved>> {
    let rows = session.query(
        "look who serves",
        &sql::UNSERVED_LETTERS,
        &[filter, &to_queue, &forced],
    )?;
    Ok(rows
        .iter()
        .map(|row| Unserved {
            queue: row.get("queue"),
            kind: row.get("kind"),
            letters: row.get::<_, i64>("letters").unsigned_abs(),
        })
        .collect())
}
