//! Correct histories have no violations, and each broken one violates a rule.

mod altered;
mod batches;
mod breakers;
mod changed;
mod content;
mod failovers;
mod histories;
mod pacing;
mod letters;
mod removed;
mod replaced;
mod samples;
mod validated;
mod waiting;

use std::sync::Arc;

use uuid::Uuid;

use super::*;
use crate::history::{ClientEvent, Phase};
use samples::{
    JOB, cancelled, cancelled_before_it_began, change, claimed_by_the_lost_worker, give_key,
    handler_event, reaped, rejected, retried, slowly_committed, slowly_reaped, succeeded,
};

fn rules(records: &Records) -> Vec<Rule> {
    let violations = check(records).violations;
    let mut rules: Vec<Rule> = violations.iter().map(|violation| violation.rule).collect();
    rules.dedup();
    // Most samples end with a live job.
    rules.retain(|rule| *rule != Rule::NotStuck);
    rules
}

#[test]
fn correct_histories_have_no_violations() {
    for records in [
        succeeded(),
        retried(),
        rejected(),
        cancelled(),
        cancelled_before_it_began(),
        slowly_committed(),
        reaped(1_000_006),
        slowly_reaped(),
    ] {
        assert_eq!(rules(&records), [], "{records:#?}");
    }
}

#[test]
fn a_job_that_is_ready_at_the_end_is_stuck() {
    let violations = check(&retried()).violations;
    assert!(violations.iter().any(|one| one.rule == Rule::NotStuck));
}

#[test]
fn an_attempt_of_a_lost_lease_may_begin_after_its_process_got_the_job_again() {
    let begins = |at: &[i64]| {
        let mut records = claimed_by_the_lost_worker();
        records.terms.is_calm = false;
        let begins = at.iter().map(|at| handler_event(*at, Phase::Begin));
        records.handlers = begins.collect();
        records
    };
    let mut late = begins(&[1_000_130, 1_000_131]);
    assert_eq!(rules(&late), []);
    late.terms.is_calm = true;
    assert_eq!(rules(&late), [Rule::NoOverlap], "no fault");
    let twice = begins(&[15, 1_000_130, 1_000_131]);
    assert_eq!(rules(&twice), [Rule::NoOverlap], "one attempt per lease");
}

/// A name, a correct history, a change that breaks it, and the rule that must notice.
type Case = (&'static str, fn() -> Records, fn(&mut Records), Rule);

#[test]
#[expect(clippy::too_many_lines, reason = "a table")]
fn every_broken_history_violates_its_rule() {
    let cases: &[Case] = &[
        ("lost", succeeded, |r| r.trace.clear(), Rule::Honest),
        (
            "failed, but stored",
            succeeded,
            |r| {
                r.history[1].event = ClientEvent::Failed {
                    error: String::new(),
                }
            },
            Rule::Honest,
        ),
        (
            "never enqueued",
            succeeded,
            |r| r.history.clear(),
            Rule::NotInvented,
        ),
        ("vanished", succeeded, |r| r.trace.truncate(2), Rule::Kept),
        (
            "truncated",
            succeeded,
            |r| r.trace[1].change = Change::Truncated,
            Rule::Kept,
        ),
        (
            "in two places",
            succeeded,
            |r| drop(r.trace.remove(1)),
            Rule::OnePlace,
        ),
        (
            "succeeded twice",
            succeeded,
            |r| {
                let again = r.trace[1..].iter().cloned().map(|mut change| {
                    change.tx += 10;
                    change
                });
                let again: Vec<RowChange> = again.collect();
                r.trace.extend(again);
            },
            Rule::OnePlace,
        ),
        (
            "settled by another worker",
            succeeded,
            |r| r.trace[3].process = Arc::from("worker-2.1"),
            Rule::Fenced,
        ),
        (
            "claimed into a lease of another claim",
            succeeded,
            |r| {
                let mut other = r.trace[..3].to_vec();
                for change in &mut other {
                    (change.job, change.tx) = (JOB + 1, change.tx + 10);
                }
                r.trace.extend(other);
            },
            Rule::Fenced,
        ),
        (
            "not charged",
            succeeded,
            |r| r.trace[2].attempt = 0,
            Rule::Attempts,
        ),
        (
            "too many attempts",
            succeeded,
            |r| (r.trace[2].attempt, r.trace[2].max_attempts) = (1, 0),
            Rule::Attempts,
        ),
        (
            "run without a claim",
            succeeded,
            |r| r.handlers[0].attempt = 3,
            Rule::Attempts,
        ),
        (
            "run before the claim",
            succeeded,
            |r| r.handlers[0].at = 5,
            Rule::Attempts,
        ),
        (
            "done, but the handler failed",
            succeeded,
            |r| r.handlers[1].phase = Phase::Retry,
            Rule::Verdict,
        ),
        (
            "done without an attempt",
            succeeded,
            |r| r.handlers.clear(),
            Rule::Verdict,
        ),
        (
            "run twice",
            succeeded,
            |r| r.handlers.insert(1, handler_event(16, Phase::Begin)),
            Rule::NoOverlap,
        ),
        (
            "held at a clean stop",
            succeeded,
            |r| {
                let event = ClientEvent::Exited { code: Some(0) };
                r.history.push(HistoryLine {
                    at: 20,
                    process: "worker-1.1".to_owned(),
                    op: 0,
                    event,
                });
            },
            Rule::CleanStop,
        ),
        (
            "an effect of a job that did not succeed",
            succeeded,
            |r| r.effects = BTreeMap::from([((JOB, 1), 1)]),
            Rule::OneTransaction,
        ),
        (
            "a wrong counter",
            succeeded,
            |r| {
                r.counters = BTreeMap::from([("redrive_jobs_enqueued_total".to_owned(), 2)]);
            },
            Rule::Counters,
        ),
        (
            "promoted early",
            retried,
            |r| r.trace[4].due = Some(200_000),
            Rule::NotEarly,
        ),
        (
            "charged for an outage",
            retried,
            |r| r.handlers[1].phase = Phase::Outage,
            Rule::OutageFree,
        ),
        (
            "refunded twice",
            retried,
            |r| r.trace[4].attempt = -1,
            Rule::Attempts,
        ),
        (
            "the wrong cause",
            rejected,
            |r| r.trace[4].cause = Some(Arc::from("exhausted")),
            Rule::Cause,
        ),
        (
            "a lost worker that settled",
            rejected,
            |r| r.trace[4].cause = Some(Arc::from("worker_lost")),
            Rule::Cause,
        ),
        (
            "refunded without a cancellation",
            rejected,
            |r| r.trace[4].attempt = 0,
            Rule::Attempts,
        ),
        (
            "charged without an attempt",
            cancelled,
            |r| r.trace[4].attempt = 1,
            Rule::Cause,
        ),
        (
            "refunded after an attempt",
            cancelled,
            |r| {
                r.handlers = vec![
                    handler_event(15, Phase::Begin),
                    handler_event(25, Phase::Retry),
                ];
            },
            Rule::Attempts,
        ),
        (
            "another generation",
            rejected,
            |r| r.trace[4].generation = 2,
            Rule::Lineage,
        ),
        (
            "an open letter deleted",
            rejected,
            |r| {
                r.trace.push(change(9, 50, Place::Letter, Change::Out));
                r.final_rows.clear();
            },
            Rule::LawfulPrune,
        ),
        (
            "redriven, but the letter stays open",
            rejected,
            |r| {
                let mut back = change(9, 50, Place::Ready, Change::In);
                back.generation = 1;
                r.trace.push(back);
            },
            Rule::RedriveOnce,
        ),
        (
            "reaped too early",
            || reaped(1_000_004),
            |_| {},
            Rule::LawfulReap,
        ),
        (
            "reaped right after a restart",
            || reaped(1_000_006),
            |r| r.terms.server_starts.push(50),
            Rule::LawfulReap,
        ),
        (
            "a suspect that shares its lease",
            || reaped(1_000_006),
            |r| {
                for (kind, place) in [(Change::Out, Place::Ready), (Change::In, Place::Leased)] {
                    let mut row = change(9, 1_000_120, place, kind);
                    (row.crashes, row.attempt) = (1, i32::from(kind == Change::In));
                    row.lease = (kind == Change::In).then(|| Uuid::from_u128(2));
                    r.trace.push(row);
                }
                let mut mate = change(9, 1_000_120, Place::Leased, Change::In);
                (mate.job, mate.lease) = (JOB + 1, Some(Uuid::from_u128(2)));
                r.trace.push(mate);
            },
            Rule::SuspectsAlone,
        ),
        (
            "cancelled without a request",
            cancelled,
            |r| drop(r.history.pop()),
            Rule::Cause,
        ),
        (
            "cancelled and charged, but never run without a fault",
            cancelled_before_it_began,
            |r| r.terms.is_calm = true,
            Rule::Cause,
        ),
        (
            "an existing job that had ended",
            slowly_committed,
            |r| r.trace[3].committed = 500_000,
            Rule::OneOfAKey,
        ),
        (
            "a key held twice",
            succeeded,
            |r| {
                let mut twins = r.trace.clone();
                for row in r.trace.iter_mut().chain(&mut twins) {
                    give_key(row);
                }
                for row in &mut twins {
                    row.job = JOB + 1;
                    row.key = row.key.map(|key| key + 1);
                }
                r.trace.extend(twins);
            },
            Rule::OneOfAKey,
        ),
    ];
    check_cases(cases);
}

fn check_cases(cases: &[Case]) {
    for (what, life, change, rule) in cases {
        let mut records = life();
        change(&mut records);
        let found = rules(&records);
        assert!(found.contains(rule), "{what}: {found:?}");
    }
}
