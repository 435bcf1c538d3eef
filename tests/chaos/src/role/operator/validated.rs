//! Redrives only letters that pass a validation.

use redrive::dlq::{LetterFilter, LetterState, ValidationResult, Validators};
use redrive::{Database, Error, JobId, Operator, Result};

use super::{drive_run, run_options};
use crate::history::{ClientEvent, ClientLog, Operation};
use crate::role::Work;

/// Letters whose keys are multiples of this fail.
const INVALID: i64 = 3;

/// Returns the reason of the run of an operation, by which the checker knows its letters.
pub(crate) fn reason_of(op: u64) -> String {
    format!("validated by operation {op}")
}

/// Validates open letters, and redrives those that pass by a run. Records which ones passed.
pub(crate) fn redrive_valid(
    db: &Database,
    log: &ClientLog,
    filter: &LetterFilter,
    operator: &Operator,
) {
    let op = log.invoke(Operation::Run, &[], &[]);
    let redriven = validate(db, filter).and_then(|(passed, failed)| {
        let options = run_options().only(passed.iter().copied().map(JobId::new));
        log.write(op, ClientEvent::Validated { passed, failed });
        let operator = operator.clone().reason(reason_of(op));
        drive_run(db, filter, &options, &operator)
    });
    log.complete(op, &redriven);
}

/// Returns the letters that pass and those that fail. A letter of another kind is in neither list.
fn validate(db: &Database, filter: &LetterFilter) -> Result<(Vec<i64>, Vec<i64>)> {
    let validators = Validators::new().check(|work: &Work| match work.key % INVALID {
        0 => Err(format!("the key {} is invalid", work.key)),
        _ => Ok(()),
    });
    let open = filter.clone().state(LetterState::Open);
    let (mut passed, mut failed) = (Vec::new(), Vec::new());
    db.dlq()
        .validate_each(&open, &validators, |letter, result| {
            match result {
                ValidationResult::Passed => passed.push(letter.id.get()),
                ValidationResult::Failed(_) => failed.push(letter.id.get()),
                _ => {}
            }
            Ok::<(), Error>(())
        })?;
    Ok((passed, failed))
}
