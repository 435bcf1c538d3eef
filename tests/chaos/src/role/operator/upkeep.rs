//! The rarer operations of an operator: retention, the archive, erasures, undone edits and breakers.

use std::ops::ControlFlow;

use redrive::dlq::{Edit, LetterFilter};
use redrive::{Database, JobId, Operator, Result};

use super::{numbers, recent_job};
use crate::history::{ClientLog, Operation};
use crate::role::gateway::GATEWAY;
use crate::role::{Options, QUEUE};

/// A call of the library, with the letters or the count that it returns.
type LibraryCall<'a> = Box<dyn Fn() -> Result<Vec<i64>> + 'a>;

/// Carries out one of them.
pub(super) fn keep_up(
    options: &Options,
    db: &Database,
    log: &ClientLog,
    operator: &Operator,
    random: &mut fastrand::Rng,
) {
    let few = LetterFilter::new().queue(QUEUE).limit(random.u64(1..20));
    let dlq = db.dlq();
    let (operation, call): (Operation, LibraryCall<'_>) = match random.u32(0..15) {
        0..=3 => (
            Operation::Retention,
            Box::new(|| dlq.retention().apply(operator).map(counted)),
        ),
        4..=6 => (
            Operation::Restore,
            Box::new(|| {
                let restored = dlq.restore(&few, operator);
                restored.map(|restored| numbers(&restored.letters))
            }),
        ),
        7 => (
            Operation::DeleteArchived,
            Box::new(|| {
                let one = few.clone().limit(1);
                dlq.delete_archived(&one, operator).map(counted)
            }),
        ),
        8..=9 => (
            Operation::Undo,
            Box::new(|| {
                let undone =
                    dlq.restore_versions_while(&few, None, operator, |_| ControlFlow::Continue(()));
                undone.map(|undone| numbers(&undone.letters))
            }),
        ),
        10..=11 => {
            // Replaces the value that was redacted, so that the letter can be redriven.
            let edit = Edit::merge(r#"{"secret": "public"}"#).expect("a valid edit");
            let edited = move || {
                let edited = dlq.edit(&few, &edit, operator);
                edited.map(|edited| numbers(&edited.edited))
            };
            (Operation::Edit, Box::new(edited))
        }
        12..=13 => (
            Operation::CloseBreaker,
            Box::new(|| {
                let was_open = db.admin().close_breaker(GATEWAY, operator);
                was_open.map(|was_open| Vec::from_iter(was_open.then_some(1)))
            }),
        ),
        _ => {
            let Some(id) = recent_job(options, random) else {
                return;
            };
            let one = LetterFilter::new().ids([JobId::new(id)]);
            let erased = move || {
                let erased = dlq.erase(&one, operator);
                erased.map(|erased| counted(erased.jobs + erased.letters))
            };
            (Operation::Erase, Box::new(erased))
        }
    };
    let op = log.invoke(operation, &[], &[]);
    log.complete(op, &call());
}

/// Returns a number for the history, which has ids of jobs elsewhere.
fn counted(count: u64) -> Vec<i64> {
    Vec::from_iter(i64::try_from(count).ok().filter(|count| *count > 0))
}
