//! Creates, lists, pauses, resumes and cancels redrive runs.

use std::time::{Duration, SystemTime};

use serde_json::value::RawValue;
use uuid::Uuid;

use super::driver::{DRIVER_LEASE_MS, RunDriver};
use super::options::RunOptions;
use super::state::RunState;

use crate::dlq::prelude::*;
use crate::dlq::redrive::Skip;

row! {
    /// A redrive run with exact counts of its letters.
    pub struct RedriveRun {
        /// The id.
        pub id: RunId,
        /// The state.
        pub state: RunState,
        /// The filter it was created from, as JSON.
        pub filter: Box<RawValue>,
        /// The operator who created it.
        pub person: Option<String>,
        /// The operator's reason.
        pub reason: Option<String>,
        /// The target queue, if not the letters' own.
        pub to_queue: Option<String>,
        /// The priority, if not the letters' own.
        pub priority: Option<i16>,
        /// How long its jobs wait until they are ready, if they wait.
        pub delay: Option<Duration>,
        /// The letters per second; `None`: unthrottled.
        pub rate: Option<u32>,
        /// The canary; 0 is none.
        pub canary: u64,
        /// The percentage of letters that may die again.
        pub tolerated: u32,
        /// The current stage, from 0.
        pub stage: u32,
        /// The last letter of the stage; `None` is the end of the run.
        pub stage_to: Option<u64>,
        /// Whether a driver holds it now.
        pub is_driven: bool,
        /// All letters of the run.
        pub total: u64,
        /// Letters that were tried.
        pub tried: u64,
        /// Tried letters that were sent.
        pub sent: u64,
        /// Tried letters that were skipped; see [`Runs::skips`].
        pub skipped: u64,
        /// Sent letters that recovered.
        pub recovered: u64,
        /// Sent letters that died again of the same failure.
        pub died_alike: u64,
        /// Sent letters that died of another failure.
        pub died_differently: u64,
        /// Sent letters whose jobs are still live.
        pub still_running: u64,
        /// Why the run halted.
        pub halted_because: Option<String>,
        /// The second operator, if its size needed an approval.
        pub approved_by: Option<String>,
        /// When the second operator approved it.
        pub approved_at: Option<SystemTime>,
        /// When it was created.
        pub created_at: SystemTime,
        /// When its first letter was sent.
        pub started_at: Option<SystemTime>,
        /// When it ended.
        pub ended_at: Option<SystemTime>,
    }
}

impl RedriveRun {
    /// Returns the number of sent letters that died again.
    pub fn died(&self) -> u64 {
        self.died_alike + self.died_differently
    }

    /// Returns whether more of the sent letters died again than the run tolerates.
    pub fn has_too_many_deaths(&self) -> bool {
        self.died() * 100 > self.sent * u64::from(self.tolerated)
    }
}

/// A newly created run.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CreatedRun {
    /// The id.
    pub id: RunId,
    /// The number of letters.
    pub letters: u64,
}

words! {
    /// What an operator does with a run.
    pub enum RunAction is "action on a run" {
        /// Approves a run that is too large for one operator; the workers then drive it.
        ///
        /// The operator must have another name than the one who created the run. A program chooses
        /// that name itself; the [protection](crate::dlq::Protection) of a queue can require another
        /// database role, which the server verifies.
        Approve = "approve",
        /// Pauses it after the current batch.
        Pause = "pause",
        /// Resumes a paused or halted run; a halted one starts again with its canary.
        Resume = "resume",
        /// Cancels it. Sent letters stay sent and the others stay open.
        Cancel = "cancel",
    }
}

/// The effect of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RunChange {
    /// The state before.
    pub was: RunState,
    /// The state after; equal if nothing changed.
    pub became: RunState,
}

impl Runs<'_> {
    /// Creates a run of the letters that match now and leaves it to the workers; a worker
    /// of any queue drives it. Returns `None` if no letter matches.
    ///
    /// # Errors
    /// *Invalid* if an option is out of range or `force` has no reason; otherwise if the database fails.
    pub fn create(
        &self,
        filter: &LetterFilter,
        options: &RunOptions,
        operator: &Operator,
    ) -> Result<Option<CreatedRun>> {
        self.insert(filter, options, operator, None)
    }

    /// Creates a run and returns its driver. The caller [drives](RunDriver::step) it; if
    /// the caller stops, a worker takes over.
    ///
    /// # Errors
    /// As [`Runs::create`].
    pub fn start(
        &self,
        filter: &LetterFilter,
        options: &RunOptions,
        operator: &Operator,
    ) -> Result<Option<(CreatedRun, RunDriver)>> {
        let driver = Uuid::new_v4();
        let created = self.insert(filter, options, operator, Some(driver))?;
        Ok(created.map(|run| {
            let driver = RunDriver::new(self.db, run.id, driver);
            (run, driver)
        }))
    }

    /// Creates a run; without a driver, any worker drives it.
    fn insert(
        self,
        filter: &LetterFilter,
        options: &RunOptions,
        operator: &Operator,
        driver: Option<Uuid>,
    ) -> Result<Option<CreatedRun>> {
        let how = &options.letters;
        let (id, letters): (Option<RunId>, u64) = self.db.ask_bulk().one(
            "create a redrive run",
            &sql::CREATE_RUN,
            &[
                &filter.recorded()?,
                operator,
                &how.to_queue,
                &how.priority.map(i32::from),
                &how.max_attempts,
                &how.force,
                &filter.limit.unwrap_or(u64::MAX),
                &options.rate,
                &i64::from(options.canary),
                &driver,
                &DRIVER_LEASE_MS,
                &i32::from(options.tolerated),
                &options.only,
                &how.delay,
            ],
        )?;
        Ok(id.map(|id| CreatedRun { id, letters }))
    }

    /// Returns the newest runs, at most `limit`.
    ///
    /// # Errors
    /// If the database fails.
    pub fn list(&self, limit: u32) -> Result<Vec<RedriveRun>> {
        self.runs(None, false, limit)
    }

    /// Returns the newest runs that have not ended, at most `limit`: those that run, are paused, halted or wait for an
    /// approval.
    ///
    /// # Errors
    /// If the database fails.
    pub fn unfinished(&self, limit: u32) -> Result<Vec<RedriveRun>> {
        self.runs(None, true, limit)
    }

    /// Returns one run.
    ///
    /// # Errors
    /// If the database fails.
    pub fn get(&self, id: RunId) -> Result<Option<RedriveRun>> {
        Ok(self.runs(Some(id), false, 1)?.pop())
    }

    fn runs(self, id: Option<RunId>, unfinished: bool, most: u32) -> Result<Vec<RedriveRun>> {
        let (ask, most) = (self.db.ask(), i64::from(most));
        ask.all("list redrive runs", &sql::RUNS, &[&id, &most, &unfinished])
    }

    /// Returns the reasons for skipped letters with their counts, most frequent first.
    ///
    /// # Errors
    /// If the database fails.
    pub fn skips(&self, id: RunId) -> Result<Vec<(Skip, u64)>> {
        let doing = format!("count the skipped letters of run {id}");
        let skips: Vec<(String, u64)> = self.db.ask_bulk().all(&doing, &sql::RUN_SKIPS, &[&id])?;
        let read = |(why, letters): (String, u64)| (Skip::of_stored(&why), letters);
        Ok(skips.into_iter().map(read).collect())
    }

    /// Changes the state of a run. Returns `None` if the run does not exist.
    ///
    /// # Errors
    /// If the operator may not approve the run; otherwise if the database fails.
    pub fn change(
        &self,
        id: RunId,
        action: RunAction,
        operator: &Operator,
    ) -> Result<Option<RunChange>> {
        let (was, became): (Option<RunState>, Option<RunState>) = self.db.ask().one(
            &format!("{action} redrive run {id}"),
            &sql::CHANGE_RUN,
            &[&id, &action, operator],
        )?;
        let states = was.zip(became);
        Ok(states.map(|(was, became)| RunChange { was, became }))
    }
}
