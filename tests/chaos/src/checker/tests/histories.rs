//! Histories and errors of jobs and letters, each with one wrong fact.

use std::sync::Arc;

use super::changed::redriven;
use super::content::alter;
use super::samples::{facts, history, reaped, rejected, retried, succeeded};
use super::{Case, check_cases};
use crate::checker::{Records, Rule};

fn give_history(records: &mut Records, row: usize, history: &str) {
    let facts = records.trace[row].facts.as_mut();
    Arc::make_mut(facts.expect("the row has a content")).history = Some(Arc::from(history));
}

#[test]
fn every_wrong_history_violates_its_rule() {
    let cases: &[Case] = &[
        (
            "a retry without an entry",
            retried,
            |r| {
                for row in [4, 6] {
                    r.trace[row].facts = Some(Arc::new(facts(None)));
                }
            },
            Rule::History,
        ),
        (
            "an entry with another error",
            retried,
            |r| r.handlers[1].error = Some("yes".to_owned()),
            Rule::History,
        ),
        (
            "an entry with another class",
            retried,
            |r| r.handlers[1].class = Some("Worse".to_owned()),
            Rule::History,
        ),
        (
            "an entry of another attempt",
            retried,
            |r| give_history(r, 4, &history("failed").replace('1', "2")),
            Rule::History,
        ),
        (
            "an entry of a job that was only promoted",
            retried,
            |r| give_history(r, 6, "[[1, 2, null], [2, 3, null]]"),
            Rule::History,
        ),
        (
            "a promotion that loses the history",
            retried,
            |r| alter(r, 6, |facts| facts.history = None),
            Rule::History,
        ),
        (
            "a reap without an entry",
            || reaped(1_000_006),
            |r| alter(r, 4, |facts| facts.history = None),
            Rule::History,
        ),
        (
            "a reap with a failure",
            || reaped(1_000_006),
            |r| give_history(r, 4, &history("failed")),
            Rule::History,
        ),
        (
            "a letter with another error",
            rejected,
            |r| alter(r, 4, |facts| facts.error = Some(Arc::from("yes"))),
            Rule::History,
        ),
        (
            "a letter with another class",
            rejected,
            |r| alter(r, 4, |facts| facts.class = Some(Arc::from("Worse"))),
            Rule::History,
        ),
        (
            "a letter without a class",
            rejected,
            |r| alter(r, 4, |facts| facts.class = None),
            Rule::History,
        ),
        (
            "a letter with an attempt that did not happen",
            rejected,
            |r| give_history(r, 4, &history("failed")),
            Rule::History,
        ),
        (
            "a redriven job with a history",
            redriven,
            |r| give_history(r, 6, &history("failed")),
            Rule::History,
        ),
        (
            "a redrive that changes the history of the letter",
            redriven,
            |r| give_history(r, 5, &history("failed")),
            Rule::History,
        ),
        (
            "a job that is enqueued with a history",
            succeeded,
            |r| give_history(r, 0, &history("failed")),
            Rule::History,
        ),
    ];
    check_cases(cases);
}
