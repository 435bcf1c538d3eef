//! Runs the ticks that are due. Any worker does; each tick runs once.

use std::time::{Duration, SystemTime};

use jiff::Timestamp;
use log::Level;

use crate::dlq::prelude::*;
use crate::schedule::missed::{Missed, Plan, plan};
use crate::schedule::rhythm::Rhythm;

/// The most schedules per call.
const SCHEDULES: i64 = 100;
/// The shortest time until the next call, if a tick is still due because another session holds its schedule.
const MIN_PAUSE: Duration = Duration::from_millis(200);

/// The result of a call.
#[derive(Debug, Default)]
pub(crate) struct Ticked {
    /// A line of the log for each schedule that this process ticked.
    pub(crate) lines: Vec<(Level, String)>,
    /// The time until the next tick; `None`: no schedule ticks.
    pub(crate) next: Option<Duration>,
}

/// Runs the ticks that are due, one statement each. A schedule that fails is tried again after a minute.
pub(crate) fn run_schedules(session: &mut Session) -> Result<Ticked> {
    const DUE: &str = "look for due schedules";
    let mut ticked = Ticked::default();
    for row in session.query(DUE, &sql::DUE_SCHEDULES, &[&SCHEDULES])? {
        let due = Due::from_row(&row)?;
        match due.run(session) {
            Ok(line) => ticked.lines.extend(line),
            // The others would fail alike.
            Err(error) if error.is_lost() => return Err(error),
            // A statement timeout or a lock concerns only this one.
            Err(error) => ticked.lines.push(due.fail(session, &error)?),
        }
    }
    let row = session.query_one("look for the next schedule", &sql::NEXT_TICK, &[])?;
    let next: Option<Duration> = column(&row, "next_tick")?;
    ticked.next = next.map(|next| next.max(MIN_PAUSE));
    Ok(ticked)
}

row! {
    /// A schedule with a tick that is due.
    struct Due {
        name: String,
        version: i64,
        cron: Option<String>,
        zone: Option<String>,
        every: Option<Duration>,
        missed: Missed,
        /// The tick; `None`: it must be computed.
        next_at: Option<Timestamp>,
        /// When the schedule was changed or last ticked.
        since: Timestamp,
        now: Timestamp,
    }
}

impl Due {
    /// Runs the tick, or computes it. Returns `None` if another process was faster or the schedule has changed.
    fn run(&self, session: &mut Session) -> Result<Option<(Level, String)>> {
        let (cron, zone) = (self.cron.as_deref(), self.zone.as_deref());
        let rhythm = Rhythm::stored(cron, zone, self.every)?;
        let Plan {
            run,
            missed,
            missed_at,
            next,
        } = match self.next_at {
            Some(due_at) => plan(&rhythm, self.missed, due_at, self.now)?,
            // SQL set it. The first tick may be due at once.
            None => Plan {
                run: Vec::new(),
                missed: 0,
                missed_at: None,
                next: rhythm.next_after(self.since, self.since)?,
            },
        };
        let ticks: Vec<SystemTime> = run.into_iter().map(SystemTime::from).collect();
        let row = session.query_one(
            &format!("run a tick of the schedule `{}`", self.name),
            &sql::TICK_SCHEDULE,
            &[
                &self.name,
                &self.version,
                &self.next_at.map(SystemTime::from),
                &ticks,
                &i64::try_from(missed).unwrap_or(i64::MAX),
                &missed_at.map(SystemTime::from),
                &SystemTime::from(next),
            ],
        )?;
        if let Some(letters) = row.get::<_, Option<i64>>("letters") {
            let line = format!("policy={}: {letters} letters", self.name);
            return Ok(Some((Level::Info, line)));
        }
        let jobs: Option<Vec<i64>> = row.get("jobs");
        Ok(jobs.map(|jobs| {
            let (name, jobs) = (&self.name, jobs.len());
            let overlapped = ticks.len() - jobs;
            let line = format!(
                "schedule={name}: {jobs} jobs enqueued, {overlapped} ticks skipped, {missed} missed"
            );
            (Level::Debug, line)
        }))
    }

    /// Stores why the tick failed, and tells it.
    fn fail(&self, session: &mut Session, error: &Error) -> Result<(Level, String)> {
        let cause = std::error::Error::source(error).map(|cause| format!(": {cause}"));
        let trouble = format!("{error}{}", cause.unwrap_or_default()).replace('\0', "\u{fffd}");
        let doing = format!("store the failure of the schedule `{}`", self.name);
        session.query(
            &doing,
            &sql::FAIL_SCHEDULE,
            &[&self.name, &self.version, &trouble],
        )?;
        let name = &self.name;
        let line = format!("schedule={name}: failed, retrying in 1 min: {trouble}");
        Ok((Level::Error, line))
    }
}
