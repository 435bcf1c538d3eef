//! Runs the ticks that are due. Any worker does; each tick runs once.

use std::time::{Duration, SystemTime};

use jiff::Timestamp;

use crate::dlq::prelude::*;
use crate::schedule::missed::{MissedPolicy, Plan, plan};
use crate::schedule::rhythm::Rhythm;

/// The most schedules per call.
const SCHEDULES: i64 = 100;
/// The shortest time until the next call, if a tick is still due because another session holds its schedule.
const MIN_PAUSE: Duration = Duration::from_millis(200);

/// The result of a call.
#[derive(Debug, Default)]
pub(crate) struct Ticked {
    /// One event for each schedule that this process ticked.
    pub(crate) events: Vec<TickEvent>,
    /// The time until the next tick; `None`: no schedule ticks.
    pub(crate) next: Option<Duration>,
}

/// The result for a schedule.
#[derive(Debug)]
pub(crate) enum TickEvent {
    Ran {
        schedule: String,
        jobs: usize,
        overlapped: usize,
        missed: u64,
    },
    Redrove {
        schedule: String,
        letters: i64,
    },
    Failed {
        schedule: String,
        trouble: String,
    },
}

/// Runs the ticks that are due, one statement each. A schedule that fails is tried again after a minute.
pub(crate) fn run_schedules(session: &mut Session) -> Result<Ticked> {
    const DUE: &str = "look for due schedules";
    let mut ticked = Ticked::default();
    for row in session.query(DUE, &sql::DUE_SCHEDULES, &[&SCHEDULES])? {
        let due = Due::from_row(&row)?;
        match due.run(session) {
            Ok(None) => {}
            Ok(Some(event)) => ticked.events.push(event),
            // The others would fail alike.
            Err(error) if error.is_unavailable() => return Err(error),
            Err(error) => {
                let trouble = due.fail(session, &error)?;
                ticked.events.push(TickEvent::Failed {
                    schedule: due.name,
                    trouble,
                });
            }
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
        policy: MissedPolicy => MissedPolicy::from_row,
        /// The tick; `None`: it must be computed.
        next_at: Option<Timestamp>,
        /// When the schedule was changed or last ticked.
        since: Timestamp,
        now: Timestamp,
    }
}

impl Due {
    /// Runs the tick, or computes it. Returns `None` if another process was faster or the schedule has changed.
    fn run(&self, session: &mut Session) -> Result<Option<TickEvent>> {
        let (cron, zone) = (self.cron.as_deref(), self.zone.as_deref());
        let rhythm = Rhythm::stored(cron, zone, self.every)?;
        let Some(due_at) = self.next_at else {
            return self.start(session, &rhythm);
        };
        let Plan {
            run,
            missed,
            missed_at,
            next,
        } = plan(&rhythm, self.policy, due_at, self.now)?;
        let ticks: Vec<SystemTime> = run.into_iter().map(SystemTime::from).collect();
        let row = session.query_one(
            &format!("run a tick of the schedule `{}`", self.name),
            &sql::TICK_SCHEDULE,
            &[
                &self.name,
                &self.version,
                &SystemTime::from(due_at),
                &ticks,
                &i64::try_from(missed).unwrap_or(i64::MAX),
                &missed_at.map(SystemTime::from),
                &SystemTime::from(next),
            ],
        )?;
        let schedule = self.name.clone();
        if let Some(letters) = row.get("letters") {
            return Ok(Some(TickEvent::Redrove { schedule, letters }));
        }
        // The database has stored it, so that the chore goes on after a statement timeout.
        if let Some(trouble) = row.get("error") {
            return Ok(Some(TickEvent::Failed { schedule, trouble }));
        }
        let jobs: Option<Vec<i64>> = row.get("jobs");
        Ok(jobs.map(|jobs| TickEvent::Ran {
            schedule,
            jobs: jobs.len(),
            overlapped: ticks.len() - jobs.len(),
            missed,
        }))
    }

    /// Computes the first tick of a schedule that SQL set. It may be due at once.
    fn start(&self, session: &mut Session, rhythm: &Rhythm) -> Result<Option<TickEvent>> {
        let next = SystemTime::from(rhythm.next_after(self.since, self.since)?);
        let doing = format!("start the schedule `{}`", self.name);
        session.query(
            &doing,
            &sql::START_SCHEDULE,
            &[&self.name, &self.version, &next],
        )?;
        Ok(None)
    }

    /// Stores why the tick failed, and returns it.
    fn fail(&self, session: &mut Session, error: &Error) -> Result<String> {
        let cause = std::error::Error::source(error).map(|cause| format!(": {cause}"));
        let trouble = format!("{error}{}", cause.unwrap_or_default()).replace('\0', "\u{fffd}");
        let doing = format!("store the failure of the schedule `{}`", self.name);
        session.query(
            &doing,
            &sql::FAIL_SCHEDULE,
            &[&self.name, &self.version, &trouble],
        )?;
        Ok(trouble)
    }
}
