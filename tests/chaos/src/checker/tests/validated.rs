//! Letters that a run of an operator sends after a validation.

use std::sync::Arc;

use super::letters::{OPERATOR, records, row, updated};
use super::{Case, check_cases, rules};
use crate::checker::{Path, Records, Rule, check};
use crate::db_trace::Change;
use crate::db_trace::letters::RunOrigin;
use crate::history::{ClientEvent, HistoryLine};
use crate::role::operator::reason_of;

/// The operation of the operator.
const OP: u64 = 4;

/// A letter passes a validation, and the run sends it.
fn sent() -> Records {
    let died = row(1, 10, Change::In, "open");
    let columns = ["state", "changed_at", "events", "run_id", "run_ordinal"];
    let mut sent = updated(&died, 2, 20, "redriving", &columns);
    sent.run = Some(RunOrigin {
        by: Arc::from(OPERATOR),
        reason: Arc::from(reason_of(OP)),
    });
    let mut records = records(vec![died, sent]);
    records.history.push(HistoryLine {
        at: 15,
        process: OPERATOR.to_owned(),
        op: OP,
        event: ClientEvent::Validated {
            passed: vec![7],
            failed: vec![8],
        },
    });
    records
}

#[test]
fn a_run_of_letters_that_passed_has_no_violations_and_is_counted() {
    assert_eq!(rules(&sent()), []);
    assert_eq!(check(&sent()).paths.times(Path::RedrivenValid), 1);
}

#[test]
fn a_run_without_a_validation_may_send_any_letter() {
    let mut records = sent();
    records.letters[1].run = Some(RunOrigin {
        by: Arc::from(OPERATOR),
        reason: Arc::from("chaos"),
    });
    records.history[0].event = ClientEvent::Validated {
        passed: Vec::new(),
        failed: vec![7],
    };
    assert_eq!(rules(&records), []);
}

#[test]
fn every_letter_that_did_not_pass_violates_its_rule() {
    let cases: &[Case] = &[
        (
            "a letter that failed",
            sent,
            |r| {
                r.history[0].event = ClientEvent::Validated {
                    passed: vec![8],
                    failed: vec![7],
                };
            },
            Rule::Validated,
        ),
        (
            "a letter that was not validated",
            sent,
            |r| {
                r.history[0].event = ClientEvent::Validated {
                    passed: Vec::new(),
                    failed: Vec::new(),
                };
            },
            Rule::Validated,
        ),
    ];
    check_cases(cases);
}
