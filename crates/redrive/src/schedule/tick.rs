//! Runs the ticks that are due. Any worker does; each tick runs once.

use std::time::{Duration, SystemTime};

use jiff::Timestamp;

use crate::dlq::prelude::*;
use crate::schedule::missed::{Missed, plan};
use crate::schedule::rhythm::Rhythm;

/// The shortest time until the next call, if a tick is still due because another session holds its schedule.
const MIN_PAUSE: Duration = Duration::from_millis(200);

/// Runs the ticks that are due, one statement each. A schedule that fails is tried again after a minute. Returns the time
/// until the next tick; `None`: no schedule ticks.
pub(crate) fn run_schedules(session: &mut Session) -> Result<Option<Duration>> {
    const DUE: &str = "look for due schedules";
    for row in session.query(DUE, &sql::DUE_SCHEDULES, &[])? {
        let due = Due::from_row(&row)?;
        match due.run(session) {
            Ok(()) => {}
            // The others would fail alike.
            Err(error) if error.is_lost() => return Err(error),
            // A statement timeout or a lock concerns only this one.
            Err(error) => due.fail(session, &error)?,
        }
    }
    let next: Option<Duration> = session.one("look for the next schedule", &sql::NEXT_TICK, &[])?;
    Ok(next.map(|next| next.max(MIN_PAUSE)))
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
    /// Runs the ticks that are due and stores the next one, unless another process was faster or the schedule has changed.
    fn run(&self, session: &mut Session) -> Result<()> {
        let (cron, zone) = (self.cron.as_deref(), self.zone.as_deref());
        let rhythm = Rhythm::stored(cron, zone, self.every)?;
        // The first tick of a schedule that SQL set may already be due.
        let next_at = match self.next_at {
            Some(next_at) => next_at,
            None => rhythm.next_after(self.since, self.since)?,
        };
        let plan = plan(&rhythm, self.missed, next_at, self.now)?;
        let missed = plan.missed;
        let ticks: Vec<SystemTime> = plan.run.into_iter().map(SystemTime::from).collect();
        let (jobs, letters): (Option<Vec<i64>>, Option<i64>) = session.one(
            &format!("run a tick of the schedule `{}`", self.name),
            &sql::TICK_SCHEDULE,
            &[
                &self.name,
                &self.version,
                &self.next_at.map(SystemTime::from),
                &ticks,
                &i64::try_from(missed).unwrap_or(i64::MAX),
                &plan.missed_at.map(SystemTime::from),
                &SystemTime::from(plan.next),
            ],
        )?;
        let name = &self.name;
        if let Some(letters) = letters {
            log::info!("policy={name}: {letters} letters");
        }
        if let Some(jobs) = jobs {
            let (jobs, ticks) = (jobs.len(), ticks.len());
            log::debug!("schedule={name}: {jobs} jobs enqueued by {ticks} ticks, {missed} missed");
        }
        Ok(())
    }

    /// Stores why the tick failed.
    fn fail(&self, session: &mut Session, error: &Error) -> Result<()> {
        let trouble = format!("{error:#}").replace('\0', "\u{fffd}");
        let doing = format!("store the failure of the schedule `{}`", self.name);
        session.query(
            &doing,
            &sql::FAIL_SCHEDULE,
            &[&self.name, &self.version, &trouble],
        )?;
        let name = &self.name;
        log::error!("schedule={name}: failed, retrying in 1 min: {trouble}");
        Ok(())
    }
}
