//! What operators set up once, and workers carry out: schedules, a redrive policy and retention rules.

use std::time::Duration;

use redrive::dlq::{LetterFilter, Policy};
use redrive::schedule::{Missed, Overlap, Schedule};
use redrive::{Database, NewJob, Operator, Result};

use crate::role::groups::ORDERED;
use crate::role::{QUEUE, Work, keeping};

/// The name of the policy.
const POLICY: &str = "chaos-policy";
/// The key of all jobs of schedules.
pub(crate) const TICK_KEY: i64 = 0;
/// How long the jobs of the schedule without overlaps run, in milliseconds: for more than one interval.
const LONG: u64 = 2500;

/// A schedule of the rounds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StandingSchedule {
    pub(crate) name: &'static str,
    pub(crate) queue: &'static str,
    pub(crate) every: Duration,
    pub(crate) missed: Missed,
    pub(crate) overlap: Overlap,
}

impl StandingSchedule {
    /// A schedule of the other queue, which ticks every two seconds.
    const fn ordered(name: &'static str, missed: Missed, overlap: Overlap) -> StandingSchedule {
        StandingSchedule {
            name,
            queue: ORDERED,
            every: Duration::from_secs(2),
            missed,
            overlap,
        }
    }
}

/// The schedules.
pub(crate) const SCHEDULES: [StandingSchedule; 4] = [
    StandingSchedule {
        name: "chaos-schedule",
        queue: QUEUE,
        every: Duration::from_secs(1),
        missed: Missed::All,
        overlap: Overlap::Allow,
    },
    StandingSchedule::ordered("chaos-once", Missed::Once, Overlap::Allow),
    StandingSchedule::ordered("chaos-skip", Missed::Skip, Overlap::Allow),
    StandingSchedule::ordered("chaos-overlap", Missed::Once, Overlap::Skip),
];

/// Returns the schedule of this name.
pub(crate) fn schedule_of(name: &str) -> Option<StandingSchedule> {
    SCHEDULES.into_iter().find(|schedule| schedule.name == name)
}

/// Sets the schedules. Changes nothing if they are set.
pub(crate) fn set_schedules(db: &Database, operator: &Operator) -> Result<()> {
    for one in SCHEDULES {
        let ms = match one.overlap {
            Overlap::Skip => LONG,
            _ => 0,
        };
        let tick = NewJob::new(&Work {
            ms,
            ..Work::instant(TICK_KEY)
        })?;
        let schedule = Schedule::every(one.name, one.every)?
            .missed(one.missed)
            .overlap(one.overlap)
            .job(one.queue, tick);
        db.schedules().set(&schedule, operator)?;
    }
    Ok(())
}

/// Sets the schedules, the policy and the retention rules. Changes nothing if they are set.
pub(super) fn set(db: &Database, operator: &Operator) -> Result<()> {
    set_schedules(db, operator)?;
    set_policy(db, operator)?;
    keeping::set_retention(db, operator)
}

/// Sets the policy, which redrives two letters a second.
pub(crate) fn set_policy(db: &Database, operator: &Operator) -> Result<()> {
    let policy = Policy::new(LetterFilter::new().queue(QUEUE));
    let policy = policy.batch(2).generations(2);
    let schedule = Schedule::every(POLICY, Duration::from_secs(1))?.redrive(policy);
    db.schedules().set(&schedule, operator)?;
    Ok(())
}

/// Ends the schedules and the policy, so that the queue can drain.
pub(crate) fn end(db: &Database, operator: &Operator) -> Result<()> {
    let names = SCHEDULES.map(|schedule| schedule.name);
    for name in names.into_iter().chain([POLICY]) {
        db.schedules().pause(name, operator)?;
    }
    Ok(())
}
