//! Sets, changes and triggers schedules.

use std::iter;
use std::time::SystemTime;

use jiff::Timestamp;

use crate::db::column::Column;
use crate::db::database::Database;
use crate::dlq::prelude::*;
use crate::schedule::definition::{Action, Schedule};

/// The schedules of a database. Returned by [`Database::schedules`].
#[derive(Clone, Copy, Debug)]
pub struct Schedules<'a> {
    pub(crate) db: &'a Database,
}

words! {
    /// The result of setting a schedule.
    pub enum ScheduleChange is "change of a schedule" {
        /// There was none with this name.
        Created = "created",
        /// It was different before.
        Changed = "changed",
        /// It was the same, and nothing was written.
        Unchanged = "unchanged",
    }
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
    /// same keeps its next tick, so ticks that were missed while the program was down are not lost. Each is set in its own
    /// transaction, so if the database refuses one, those before it are set. A schedule that the program no longer has stays until you [remove](Self::remove) it.
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
    /// *Invalid* if there is neither a job nor a policy or it is invalid, the schedule of that name
    /// has the other one, or the cron line has no next time; otherwise if the database fails.
    pub fn set(&self, schedule: &Schedule, operator: &Operator) -> Result<ScheduleChange> {
        let action = schedule.checked()?;
        let doing = format!("set the schedule `{}`", schedule.name);
        let next = self.ticks(schedule, 1)?.pop();
        let (cron, zone, every) = schedule.rhythm.columns();
        match action {
            Action::Enqueue(queue, job) => self.db.ask().one(
                &doing,
                &sql::SET_SCHEDULE,
                &[
                    &schedule.name,
                    queue,
                    &job.kind,
                    &job.payload,
                    &cron,
                    &zone,
                    &every,
                    &i32::from(job.priority),
                    &job.max_attempts,
                    &job.stored_headers()?,
                    &schedule.missed,
                    &schedule.overlap,
                    &next,
                    operator,
                ],
            ),
            Action::Redrive(policy) => self.db.ask().one(
                &doing,
                &sql::SET_POLICY,
                &[
                    &schedule.name,
                    &policy.filter()?,
                    &every,
                    &cron,
                    &zone,
                    &policy.batch,
                    &policy.generations,
                    &policy.growth,
                    &policy.counts_only,
                    &next,
                    operator,
                ],
            ),
        }
    }

    /// Returns the next `count` ticks of a schedule, at most 1,000, as if it were set now. Writes nothing.
    ///
    /// # Errors
    /// *Invalid* if the cron line has no next time; otherwise if the database does not answer.
    pub fn preview(&self, schedule: &Schedule, count: usize) -> Result<Vec<SystemTime>> {
        self.ticks(schedule, count.min(1000))
    }

    /// Pauses a schedule. Returns whether it exists.
    ///
    /// It keeps its next tick: after [`resume`](Self::resume), the ticks of the pause are missed ones.
    ///
    /// # Errors
    /// If the database fails.
    pub fn pause(&self, name: &str, operator: &Operator) -> Result<bool> {
        self.set_paused(name, operator, "pause", true)
    }

    /// Resumes a paused schedule. Returns whether it exists.
    ///
    /// The ticks of the pause follow the [policy for missed ticks](Schedule::missed).
    ///
    /// # Errors
    /// If the database fails.
    pub fn resume(&self, name: &str, operator: &Operator) -> Result<bool> {
        self.set_paused(name, operator, "resume", false)
    }

    fn set_paused(self, name: &str, operator: &Operator, verb: &str, paused: bool) -> Result<bool> {
        let doing = format!("{verb} the schedule `{name}`");
        let ask = self.db.ask();
        ask.one(&doing, &sql::PAUSE_SCHEDULE, &[&name, &paused, operator])
    }

    /// Enqueues the job of a schedule, or redrives the letters of its policy, now, also if it is paused. Its next tick stays
    /// the same.
    ///
    /// # Errors
    /// If the database fails.
    pub fn trigger(&self, name: &str, operator: &Operator) -> Result<Triggered> {
        let found: (Option<JobId>, Option<bool>, Option<u64>) = self.db.ask().one(
            &format!("trigger the schedule `{name}`"),
            &sql::TRIGGER_SCHEDULE,
            &[&name, operator],
        )?;
        Ok(match found {
            (None, _, None) => Triggered::NotFound,
            (None, _, Some(letters)) => Triggered::Redriven(letters),
            (Some(job), Some(true), _) => Triggered::New(job),
            (Some(job), _, _) => Triggered::Live(job),
        })
    }

    /// Removes a schedule with its history, and keeps its jobs and letters. Returns whether it existed.
    ///
    /// # Errors
    /// If the database fails.
    pub fn remove(&self, name: &str, operator: &Operator) -> Result<bool> {
        let doing = format!("remove the schedule `{name}`");
        let ask = self.db.ask();
        ask.one(&doing, &sql::REMOVE_SCHEDULE, &[&name, operator])
    }

    /// Returns the next ticks. A schedule that keeps its rhythm keeps its next one.
    fn ticks(self, schedule: &Schedule, count: usize) -> Result<Vec<SystemTime>> {
        let (cron, zone, every) = schedule.rhythm.columns();
        let (start, kept): (Timestamp, Option<Timestamp>) = self.db.ask().one(
            &format!("read the schedule `{}`", schedule.name),
            &sql::SCHEDULE_CLOCK,
            &[&schedule.name, &cron, &zone, &every],
        )?;
        let next_after = |tick| schedule.rhythm.next_after(tick, tick);
        let first = kept.map_or_else(|| next_after(start), Ok);
        let ticks = iter::successors(Some(first), |last| Some(next_after(*last.as_ref().ok()?)));
        ticks
            .take(count)
            .map(|tick| tick.map(SystemTime::from))
            .collect()
    }
}

impl Column for Timestamp {
    type Stored = SystemTime;

    fn read(stored: SystemTime) -> Result<Timestamp> {
        Timestamp::try_from(stored)
            .map_err(|error| Error::invalid("the stored time is out of range").caused_by(error))
    }
}
