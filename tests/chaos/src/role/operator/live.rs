//! Changes waiting jobs in bulk, as an operator does.

use redrive::admin::{JobChange, JobFilter};
use redrive::dlq::Edit;
use redrive::{Database, JobId, Operator, Payload as _, Result};

use super::numbers;
use crate::history::{ClientEvent, ClientLog, JobSelection, LiveChange, Operation};
use crate::role::groups::OTHER_QUEUES;
use crate::role::{QUEUE, Work};

/// Changes some waiting jobs of a queue.
pub(super) fn operate(
    db: &Database,
    log: &ClientLog,
    random: &mut fastrand::Rng,
    operator: &Operator,
) {
    let queue = match random.bool() {
        true => QUEUE,
        false => OTHER_QUEUES[random.usize(0..OTHER_QUEUES.len())],
    };
    let (change, limit) = match random.u32(0..8) {
        0..=2 => (LiveChange::RunNow, random.u64(1..20)),
        3..=4 => (LiveChange::Priority(random.i16(-3..=3)), random.u64(1..20)),
        5..=6 => (LiveChange::Edit(random.i64(0..1000)), random.u64(1..5)),
        _ => (LiveChange::Cancel, random.u64(1..3)),
    };
    let selection = JobSelection {
        change,
        queue: queue.to_owned(),
        kind: (random.u32(0..3) == 0).then(|| Work::KIND.to_owned()),
        least_priority: (random.u32(0..3) == 0).then(|| random.i16(-2..=1)),
        limit,
    };
    change_jobs(db, log, operator, &selection);
}

/// Changes the waiting jobs that a selection has. Records it, and the changed jobs.
pub(crate) fn change_jobs(
    db: &Database,
    log: &ClientLog,
    operator: &Operator,
    selection: &JobSelection,
) {
    let op = log.invoke(Operation::ChangeJobs, &[], &[]);
    log.write(op, ClientEvent::Selects(selection.clone()));
    let changed = make(db, operator, selection);
    log.complete(op, &changed.map(|jobs| numbers(&jobs)));
}

fn make(db: &Database, operator: &Operator, selection: &JobSelection) -> Result<Vec<JobId>> {
    let mut filter = JobFilter::new()
        .queue(&selection.queue)
        .limit(selection.limit);
    if let Some(kind) = &selection.kind {
        filter = filter.kind(kind);
    }
    if let Some(least) = selection.least_priority {
        filter = filter.priority_from(least);
    }
    let change = match selection.change {
        LiveChange::RunNow => JobChange::RunNow,
        LiveChange::Priority(priority) => JobChange::SetPriority(priority),
        LiveChange::Cancel => JobChange::Cancel,
        LiveChange::Edit(value) => {
            let edit = Edit::merge(&format!(r#"{{"edited": {value}}}"#))?;
            let edited = db.admin().jobs().edit(&filter, &edit, operator)?;
            return Ok(edited.edited);
        }
    };
    let changed = db.admin().jobs().change(&filter, change, operator)?;
    Ok(changed.jobs)
}
