//! What operators set up once, and workers carry out: a schedule and a redrive policy.

use std::time::Duration;

use redrive::dlq::{LetterFilter, Policy, PolicyMode};
use redrive::schedule::{Missed, Schedule};
use redrive::{Database, NewJob, Operator, Result};

use crate::role::{QUEUE, Work};

/// The name of the schedule.
const SCHEDULE: &str = "chaos-schedule";
/// The name of the policy.
const POLICY: &str = "chaos-policy";
/// The key of all jobs of the schedule.
pub(crate) const TICK_KEY: i64 = 0;
/// The interval of the schedule and of the policy.
pub(crate) const INTERVAL: Duration = Duration::from_secs(1);

/// Sets the schedule and the policy. Changes nothing if they are set.
pub(super) fn set(db: &Database, operator: &Operator) -> Result<()> {
    let tick = NewJob::new(&Work::instant(TICK_KEY))?;
    let schedule = Schedule::every(SCHEDULE, INTERVAL)?
        .missed(Missed::All)
        .job(QUEUE, tick);
    db.schedules().set(&schedule, operator)?;
    if db.dlq().policies().list()?.is_empty() {
        let policy = Policy::new(POLICY, LetterFilter::new().queue(QUEUE));
        let policy = policy.every(INTERVAL).batch(2).generations(2);
        db.dlq().policies().set(&policy, operator)?;
    }
    Ok(())
}

/// Ends the schedule and the policy, so that the queue can drain.
pub(crate) fn end(db: &Database, operator: &Operator) -> Result<()> {
    db.schedules().pause(SCHEDULE, operator)?;
    let policies = db.dlq().policies();
    policies.set_mode(POLICY, PolicyMode::Paused, operator)?;
    Ok(())
}
