//! Broken contents, checkpoints and follow-ups, each with one wrong fact.

use std::sync::Arc;

use super::changed::{
    cancel_running, captured, checkpointed, claimed_again, edited, followed_up, quarantined,
    redriven, reordered, ticked,
};
use super::samples::{JOB, change, reaped, rejected, retried, succeeded};
use super::{Case, check_cases, rules};
use crate::checker::{Records, Rule, TickOutcome};
use crate::db_trace::{Change, Place};
use crate::facts::Facts;

/// Changes the content of a row.
pub(super) fn alter(records: &mut Records, row: usize, change: fn(&mut Facts)) {
    let facts = records.trace[row].facts.as_mut();
    change(Arc::make_mut(facts.expect("the row has a content")));
}

#[test]
fn correct_contents_have_no_violations() {
    for records in [
        redriven(),
        edited(),
        reordered(),
        checkpointed(),
        followed_up(),
    ] {
        assert_eq!(rules(&records), [], "{records:#?}");
    }
}

#[test]
fn every_wrong_content_violates_its_rule() {
    let cases: &[Case] = &[
        (
            "a claim that loses the priority",
            succeeded,
            |r| alter(r, 2, |facts| facts.priority = 0),
            Rule::Content,
        ),
        (
            "a claim that changes the kind",
            succeeded,
            |r| alter(r, 2, |facts| facts.kind = Arc::from("other")),
            Rule::Content,
        ),
        (
            "a retry that loses the headers",
            retried,
            |r| alter(r, 4, |facts| facts.headers = None),
            Rule::Content,
        ),
        (
            "a promotion that loses the group key",
            retried,
            |r| alter(r, 6, |facts| facts.group_key = None),
            Rule::Content,
        ),
        (
            "a promotion that rewrites the payload",
            retried,
            |r| alter(r, 6, |facts| facts.payload = Arc::from("{\"key\":70}")),
            Rule::Content,
        ),
        (
            "a reap that resets the time of the first enqueue",
            || reaped(1_000_006),
            |r| alter(r, 4, |facts| facts.enqueued = 1_000_006),
            Rule::Content,
        ),
        (
            "a reap that loses the unique key",
            || reaped(1_000_006),
            |r| alter(r, 4, |facts| facts.unique_key = Some(Arc::from("k"))),
            Rule::Content,
        ),
        (
            "a death that alters the payload",
            rejected,
            |r| alter(r, 4, |facts| facts.payload = Arc::from("{\"key\": 71}")),
            Rule::Content,
        ),
        (
            "a death that loses the priority",
            rejected,
            |r| alter(r, 4, |facts| facts.priority = 0),
            Rule::Content,
        ),
        (
            "a redrive of the payload before the edit",
            edited,
            |r| alter(r, 7, |facts| facts.payload = Arc::from("{\"key\": 70}")),
            Rule::Content,
        ),
        (
            "a redrive that loses the priority",
            redriven,
            |r| alter(r, 6, |facts| facts.priority = 0),
            Rule::Content,
        ),
        (
            "an edit that nobody asked for",
            edited,
            |r| r.history.truncate(2),
            Rule::Content,
        ),
        (
            "an edit that changes the priority",
            edited,
            |r| alter(r, 5, |facts| facts.priority = 4),
            Rule::Content,
        ),
        (
            "a priority that nobody changed",
            reordered,
            |r| r.history.truncate(2),
            Rule::Content,
        ),
        (
            "a content that is not there",
            succeeded,
            |r| r.trace[2].facts = None,
            Rule::Content,
        ),
        (
            "a quarantined letter that is redriven without force",
            quarantined,
            |r| r.trace[5].state = Some(Arc::from("redriving")),
            Rule::RedriveOnce,
        ),
    ];
    check_cases(cases);
}

#[test]
fn every_wrong_checkpoint_or_follow_up_violates_its_rule() {
    let cases: &[Case] = &[
        (
            "an attempt that begins with another checkpoint",
            checkpointed,
            |r| r.handlers[0].checkpoint = Some(1),
            Rule::Checkpoint,
        ),
        (
            "a checkpoint that no attempt wrote",
            checkpointed,
            |r| r.checkpoints.clear(),
            Rule::Checkpoint,
        ),
        (
            "a failure whose last checkpoint is not stored",
            checkpointed,
            |r| {
                let mut later = r.checkpoints[0].clone();
                (later.at, later.checkpoint) = (21, Some(2));
                r.checkpoints.push(later);
            },
            Rule::Checkpoint,
        ),
        (
            "a checkpoint that the retry loses",
            checkpointed,
            |r| {
                alter(r, 5, |facts| {
                    facts.headers = Some(Arc::from("{\"a\": \"b\"}"));
                });
            },
            Rule::Content,
        ),
        (
            "a success without its follow-up",
            followed_up,
            |r| r.trace.truncate(4),
            Rule::FollowUp,
        ),
        (
            "a follow-up of another transaction",
            followed_up,
            |r| r.trace[4].tx = 9,
            Rule::FollowUp,
        ),
        (
            "two follow-ups",
            followed_up,
            |r| {
                let mut twin = r.trace[4].clone();
                twin.job += 1;
                r.trace.push(twin);
            },
            Rule::FollowUp,
        ),
        (
            "a follow-up of a job that failed",
            retried,
            |r| {
                let mut child = change(3, 31, Place::Ready, Change::In);
                (child.job, child.key) = (JOB + 1, Some(-560));
                r.trace.push(child);
            },
            Rule::FollowUp,
        ),
    ];
    check_cases(cases);
}

#[test]
fn every_wrong_delay_or_cancellation_violates_its_rule() {
    let cases: &[Case] = &[
        (
            "a retry that is due too early",
            retried,
            |r| r.trace[4].due = Some(150_030 - 1),
            Rule::Delay,
        ),
        (
            "a retry that is due too late",
            retried,
            |r| r.trace[4].due = Some(150_032),
            Rule::Delay,
        ),
        (
            "a retry without a delay",
            retried,
            |r| (r.trace[4].place, r.trace[4].due) = (Place::Ready, None),
            Rule::Delay,
        ),
        (
            "a cancelled job that is claimed again",
            || claimed_again(retried()),
            |r| cancel_running(r, 12),
            Rule::Cancelled,
        ),
    ];
    check_cases(cases);
    let mut earlier = claimed_again(retried());
    cancel_running(&mut earlier, 200_050);
    assert_eq!(rules(&earlier), [], "the last attempt was cancelled");
}

#[test]
fn every_wrong_capture_or_tick_violates_its_rule() {
    assert_eq!(rules(&captured()), []);
    assert_eq!(rules(&ticked()), []);
    let cases: &[Case] = &[
        (
            "two letters of a position",
            captured,
            |r| {
                let mut twin = r.trace[0].clone();
                (twin.job, twin.at, twin.seq) = (JOB + 1, 60, 600);
                r.trace.push(twin);
            },
            Rule::Capture,
        ),
        (
            "a capture that returns a letter of another position",
            captured,
            |r| alter(r, 0, |facts| facts.position = Some(Arc::from("4"))),
            Rule::Capture,
        ),
        (
            "a capture without a letter",
            captured,
            |r| r.trace.clear(),
            Rule::Capture,
        ),
        (
            "two jobs of a tick",
            ticked,
            |r| {
                let mut twin = r.trace[0].clone();
                twin.job += 1;
                r.trace.push(twin);
            },
            Rule::Schedule,
        ),
        (
            "a tick without its job",
            ticked,
            |r| r.ticks[0].job = Some(JOB + 1),
            Rule::Schedule,
        ),
        (
            "two ticks with the same job",
            ticked,
            |r| {
                r.ticks[1].job = Some(JOB);
                r.ticks[1].outcome = TickOutcome::Fired;
            },
            Rule::Schedule,
        ),
        (
            "a tick that is not in the history",
            ticked,
            |r| r.ticks[1].ticks = 1,
            Rule::Schedule,
        ),
    ];
    check_cases(cases);
}
