//! Sets, changes and triggers schedules.

use std::time::SystemTime;

use jiff::Timestamp;

use crate::db::database::Database;
use crate::db::session::Session;
use crate::db::sql::{self, Parameter};
use crate::error::{Error, Result};
use crate::job::job::JobId;
use crate::job::milliseconds::milliseconds;
use crate::job::operator::Operator;
use crate::schedule::definition::{Action, Schedule};
use crate::schedule::rhythm::Rhythm;

/// The schedules of a database. Returned by [`Database::schedules`].
#[derive(Clone, Copy, Debug)]
pub struct Schedules<'a> {
    pub(crate) db: &'a Database,
}

/// The result of setting a schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ScheduleChange {
    /// There was none with this name.
    Created,
    /// It was different before.
    Changed,
    /// It was the same, and nothing was written.
    Unchanged,
}

/// The result of a [trigger](Schedules::trigger).
// Exhaustive: callers should handle each case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Triggered {
    /// The job was enqueued.
    New(JobId),
    /// The policy redrove this many letters, or counted them.
    Redriven(u64),
    /// Nothing was enqueued: this job is still live, and the overlap is [`Skip`](crate::schedule::Overlap::Skip).
    Live(JobId),
    /// No schedule has this name.
    NotFound,
}

impl Database {
    /// Returns the schedules: jobs that are enqueued, and letters that are redriven, by a cron line or at an interval.
    pub fn schedules(&self) -> Schedules<'_> {
        Schedules { db: self }
    }
}

impl Schedules<'_> {
    /// Sets the schedules of a program by their names, and leaves all others alone. Returns what changed, in the
    /// order of the schedules.
    ///
    /// Call this when the program starts; its role needs the profession app or operator, and operator for a policy. A schedule that is the
    /// same keeps its next tick, so ticks that were missed while the program was down are not lost. All are checked before the first is set; each is set in
    /// its own transaction. A schedule that the program no longer has stays until you [remove](Self::remove) it.
    ///
    /// # Errors
    /// As [`set`](Self::set).
    pub fn sync(&self, schedules: &[Schedule], operator: &Operator) -> Result<Vec<ScheduleChange>> {
        for schedule in schedules {
            schedule.checked()?;
        }
        schedules
            .iter()
            .map(|schedule| self.set(schedule, operator))
            .collect()
    }

    /// Adds a schedule, or changes the one of that name. Records a change in the audit log.
    ///
    /// A new cron line, time zone or interval counts from now: ticks of the earlier one that are due but have not
    /// run are dropped. Other changes keep the next tick, and a paused schedule stays paused.
    ///
    /// # Errors
    /// *Invalid* if there is neither a job nor a policy or it is invalid, a bound is out of range, or the cron line has no time before the
    /// year 3000; otherwise if the database rejects the statement or does not answer.
    pub fn set(&self, schedule: &Schedule, operator: &Operator) -> Result<ScheduleChange> {
        schedule.checked()?;
        let (schedule, operator) = (schedule.clone(), operator.clone());
        let doing = format!("set the schedule `{}`", schedule.name);
        self.db.call(&doing.clone(), move |session| {
            let next = clock(session, &schedule)?.times(&schedule.rhythm, 1)?;
            let (cron, zone, every) = schedule.rhythm.columns();
            let (missed, next) = (schedule.missed, next.first().copied());
            let row = match schedule.checked()? {
                Action::Enqueue(queue, job) => {
                    let parameters: [Parameter<'_>; 17] = [
                        &schedule.name,
                        &cron,
                        &zone,
                        &every,
                        queue,
                        &job.kind,
                        &job.payload,
                        &job.priority,
                        &job.max_attempts.cast_signed(),
                        &job.stored_headers()?,
                        &missed.missed.as_str(),
                        &missed.ticks.cast_signed(),
                        &milliseconds(missed.age),
                        &schedule.overlap.as_str(),
                        &next,
                        &operator.by(),
                        &operator.given_reason(),
                    ];
                    session.query_one(&doing, &sql::SET_SCHEDULE, &parameters)?
                }
                Action::Redrive(policy) => {
                    let parameters: [Parameter<'_>; 9] = [
                        &schedule.name,
                        &policy.letters.parameter()?,
                        &every,
                        &cron,
                        &zone,
                        &policy.options()?,
                        &next,
                        &operator.by(),
                        &operator.given_reason(),
                    ];
                    session.query_one(&doing, &sql::SET_POLICY, &parameters)?
                }
            };
            match row.get("result") {
                "created" => Ok(ScheduleChange::Created),
                "changed" => Ok(ScheduleChange::Changed),
                _ => Ok(ScheduleChange::Unchanged),
            }
        })
    }

    /// Returns the next `count` ticks of a schedule, at most 1,000, as if it were set now. Writes nothing.
    ///
    /// # Errors
    /// *Invalid* if the cron line has no time before the year 3000; otherwise if the database does not answer.
    pub fn preview(&self, schedule: &Schedule, count: usize) -> Result<Vec<SystemTime>> {
        let schedule = schedule.clone();
        self.db
            .call("read the clock for a schedule", move |session| {
                clock(session, &schedule)?.times(&schedule.rhythm, count.min(1000))
            })
    }

    /// Pauses a schedule. Returns whether it exists.
    ///
    /// It keeps its next tick: after [`resume`](Self::resume), the ticks of the pause are missed ones.
    ///
    /// # Errors
    /// If the database rejects the statement or does not answer.
    pub fn pause(&self, name: &str, operator: &Operator) -> Result<bool> {
        self.set_paused(name, operator, "pause", true)
    }

    /// Resumes a paused schedule. Returns whether it exists.
    ///
    /// The ticks of the pause follow the [policy for missed ticks](Schedule::missed).
    ///
    /// # Errors
    /// If the database rejects the statement or does not answer.
    pub fn resume(&self, name: &str, operator: &Operator) -> Result<bool> {
        self.set_paused(name, operator, "resume", false)
    }

    fn set_paused(self, name: &str, operator: &Operator, verb: &str, paused: bool) -> Result<bool> {
        let (name, operator) = (name.to_owned(), operator.clone());
        let doing = format!("{verb} the schedule `{name}`");
        self.db.call(&doing.clone(), move |session| {
            let parameters: [Parameter<'_>; 4] =
                [&name, &paused, &operator.by(), &operator.given_reason()];
            let row = session.query_one(&doing, &sql::PAUSE_SCHEDULE, &parameters)?;
            Ok(row.get("found"))
        })
    }

    /// Enqueues the job of a schedule, or redrives the letters of its policy, now, also if it is paused. Its next tick stays
    /// the same.
    ///
    /// # Errors
    /// If the database rejects the statement or does not answer.
    pub fn trigger(&self, name: &str, operator: &Operator) -> Result<Triggered> {
        let (name, operator) = (name.to_owned(), operator.clone());
        let doing = format!("trigger the schedule `{name}`");
        self.db.call(&doing.clone(), move |session| {
            let parameters: [Parameter<'_>; 3] = [&name, &operator.by(), &operator.given_reason()];
            let row = session.query_one(&doing, &sql::TRIGGER_SCHEDULE, &parameters)?;
            let letters: Option<i64> = row.get("letters");
            Ok(match (row.get::<_, Option<i64>>("job_id"), letters) {
                (None, None) => Triggered::NotFound,
                (None, Some(letters)) => Triggered::Redriven(letters.unsigned_abs()),
                (Some(job), _) if row.get("is_new") => Triggered::New(JobId::new(job)),
                (Some(job), _) => Triggered::Live(JobId::new(job)),
            })
        })
    }

    /// Removes a schedule with its history, and keeps its jobs and letters. Returns whether it existed.
    ///
    /// # Errors
    /// If the database rejects the statement or does not answer.
    pub fn remove(&self, name: &str, operator: &Operator) -> Result<bool> {
        let (name, operator) = (name.to_owned(), operator.clone());
        let doing = format!("remove the schedule `{name}`");
        self.db.call(&doing.clone(), move |session| {
            let parameters: [Parameter<'_>; 3] = [&name, &operator.by(), &operator.given_reason()];
            let row = session.query_one(&doing, &sql::REMOVE_SCHEDULE, &parameters)?;
            Ok(row.get("found"))
        })
    }
}

/// The times that determine the next tick of a schedule.
struct Clock {
    now: Timestamp,
    /// The next tick of the stored schedule, if it has the same rhythm.
    kept: Option<Timestamp>,
    /// No tick up to this time runs again.
    last: Option<Timestamp>,
}

fn clock(session: &mut Session, schedule: &Schedule) -> Result<Clock> {
    let doing = format!("read the schedule `{}`", schedule.name);
    let row = session.query_one(&doing, &sql::SCHEDULE_CLOCK, &[&schedule.name])?;
    let moment = |column| {
        let at: Option<SystemTime> = row.get(column);
        at.map(timestamp).transpose()
    };
    let stored: (Option<String>, Option<&str>, Option<i64>) =
        (row.get("cron"), row.get("zone"), row.get("every_ms"));
    Ok(Clock {
        now: timestamp(row.get("now"))?,
        kept: moment("next_at")?.filter(|_| stored == schedule.rhythm.columns()),
        last: moment("last_at")?,
    })
}

impl Clock {
    fn times(&self, rhythm: &Rhythm, count: usize) -> Result<Vec<SystemTime>> {
        // The database's clock may have gone back.
        let from = self.last.map_or(self.now, |last| last.max(self.now));
        let mut next = match self.kept {
            Some(kept) => kept,
            None => rhythm.next_after(from, from)?,
        };
        let mut times = Vec::with_capacity(count);
        while times.len() < count {
            times.push(next.into());
            if times.len() < count {
                next = rhythm.next_after(next, next)?;
            }
        }
        Ok(times)
    }
}

/// Converts a time of the database.
pub(crate) fn timestamp(time: SystemTime) -> Result<Timestamp> {
    Timestamp::try_from(time)
        .map_err(|error| Error::invalid("the stored time is out of range").caused_by(error))
}
