//! Handles the groups that letters hold, as an operator does.

use std::time::Duration;

use redrive::dlq::LetterFilter;
use redrive::{Database, JobId, Operator, PauseEnd, Queue, Result};

use super::{drive_run, numbers, run_options};
use crate::history::{ClientLog, Operation};
use crate::role::groups::{HOLDING_QUEUES, OTHER_QUEUES};

/// How many held groups an operator looks at.
const HELD_GROUPS: u32 = 50;

/// Redrives or discards letters of one of the other queues, releases a group, or pauses a queue.
pub(super) fn operate(
    db: &Database,
    log: &ClientLog,
    random: &mut fastrand::Rng,
    operator: &Operator,
) {
    let queue = OTHER_QUEUES[random.usize(0..OTHER_QUEUES.len())];
    let letters = LetterFilter::new().queue(queue);
    match random.u32(0..25) {
        // Longer than three renewals, after which each worker knows of it.
        0 => {
            let op = log.invoke(Operation::Pause, &[], &[]);
            let end = PauseEnd::After(Duration::from_millis(random.u64(3000..7000)));
            let paused = Queue::new(db, queue).and_then(|queue| queue.pause(end, operator));
            log.complete(op, &paused.map(|()| vec![1]));
        }
        1..=9 => redrive(db, log, operator, &letters.limit(random.u64(1..4))),
        10..=12 => redrive(db, log, operator, &letters.limit(random.u64(10..100))),
        13..=15 => {
            let op = log.invoke(Operation::Run, &[], &[]);
            let some = letters.limit(random.u64(1..60));
            log.complete(op, &drive_run(db, &some, &run_options(), operator));
        }
        16..=18 => {
            let op = log.invoke(Operation::Discard, &[], &[]);
            let discarded = db.dlq().discard(&letters.limit(1), operator);
            log.complete(op, &discarded.map(|ids| numbers(&ids)));
        }
        _ => {
            let queue = HOLDING_QUEUES[random.usize(0..HOLDING_QUEUES.len())];
            with_held_group(db, log, random, operator, queue);
        }
    }
}

fn redrive(db: &Database, log: &ClientLog, operator: &Operator, letters: &LetterFilter) {
    let op = log.invoke(Operation::Redrive, &[], &[]);
    let redriven = db.dlq().redrive(letters, operator);
    log.complete(op, &redriven.map(|done| numbers(&done.redriven)));
}

/// Redrives the letter that holds a group, discards it, or releases the group.
fn with_held_group(
    db: &Database,
    log: &ClientLog,
    random: &mut fastrand::Rng,
    operator: &Operator,
    queue: &str,
) {
    let Ok(queue) = Queue::new(db, queue) else {
        return;
    };
    let Ok(held) = queue.held_groups(HELD_GROUPS) else {
        return;
    };
    let Some(group) = random.choice(&held) else {
        return;
    };
    let letter = LetterFilter::new().ids([group.letter]);
    match random.u32(0..4) {
        0..=1 => redrive(db, log, operator, &letter),
        2 => {
            let op = log.invoke(Operation::Discard, &[], &[]);
            let discarded = db.dlq().discard(&letter, operator);
            log.complete(op, &discarded.map(|ids| numbers(&ids)));
        }
        _ => release(log, &queue, &group.group, operator),
    }
}

/// Releases a group. Records the letter that held it.
pub(crate) fn release(log: &ClientLog, queue: &Queue, group: &str, operator: &Operator) {
    let op = log.invoke(Operation::Release, &[], &[]);
    let released: Result<Option<JobId>> = queue.release_group(group, operator);
    log.complete(
        op,
        &released.map(|letter| letter.iter().map(|letter| letter.get()).collect()),
    );
}
