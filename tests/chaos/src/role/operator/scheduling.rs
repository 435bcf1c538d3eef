//! What an operator does with schedules.

use redrive::schedule::Triggered;
use redrive::{Database, Operator};

use crate::history::{ClientLog, Operation};
use crate::role::standing::SCHEDULES;

/// Triggers, pauses or resumes a schedule.
pub(super) fn operate(
    db: &Database,
    log: &ClientLog,
    random: &mut fastrand::Rng,
    operator: &Operator,
) {
    let name = SCHEDULES[random.usize(0..SCHEDULES.len())].name;
    match random.u32(0..4) {
        0 => trigger(db, log, operator, name),
        1 => pause(db, log, operator, name),
        _ => resume(db, log, operator, name),
    }
}

/// Triggers a schedule. Records the job.
pub(crate) fn trigger(db: &Database, log: &ClientLog, operator: &Operator, name: &str) {
    let op = log.invoke(Operation::Trigger, &[], &[]);
    let triggered = db.schedules().trigger(name, operator);
    log.complete(
        op,
        &triggered.map(|triggered| match triggered {
            Triggered::New(job) | Triggered::Live(job) => vec![job.get()],
            Triggered::NotFound => Vec::new(),
        }),
    );
}

pub(crate) fn pause(db: &Database, log: &ClientLog, operator: &Operator, name: &str) {
    let op = log.invoke(Operation::PauseSchedule, &[], &[]);
    let paused = db.schedules().pause(name, operator);
    log.complete(op, &paused.map(|_| Vec::new()));
}

pub(crate) fn resume(db: &Database, log: &ClientLog, operator: &Operator, name: &str) {
    let op = log.invoke(Operation::PauseSchedule, &[], &[]);
    let resumed = db.schedules().resume(name, operator);
    log.complete(op, &resumed.map(|_| Vec::new()));
}
