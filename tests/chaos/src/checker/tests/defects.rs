//! The defects that the checker must notice: a correct history, a change that breaks it, and the rule. A check that a
//! mutant of redrive reaches has none here.

use std::sync::Arc;

use super::notation::{handled, history, line};
use super::samples::*;
use super::{Records, Rule};
use crate::db_trace::{LeftLetter, TickOutcome};
use crate::history::{ClientEvent, HandlerEvent, LiveChange, Phase};

type Life = fn() -> Records;
/// A name, a correct history, a change of it, and a rule.
type Case = (&'static str, Life, fn(&mut Records), Rule);

macro_rules! cases {
    ($($what:literal: $life:expr, $change:expr => $rule:ident;)+) => {
        &[$(($what, $life, $change, Rule::$rule)),+]
    };
}

/// What a fault, a failover or a late commit excuses. An excuse that is too wide is a history that is not broken.
pub(super) const EXCUSED: &[Case] = cases! {
    "an attempt under a lost lease, after its process got the job again": claimed_by_the_lost_worker,
        |_| {} => NoOverlap;
    "an acknowledged job that a failover lost before its answer arrived": succeeded, |r| {
        r.trace.clear();
        r.terms.lossy_windows.push((-5, 0));
    } => Honest;
    "a bulk change without an answer, which takes effect later": run_now, |r| {
        r.history.pop();
        r.set([1, 2], "at=5000000");
        r.set([2], "ready=5000000");
    } => Content;
    "cancelled and charged, because its transaction could not begin": cancelled, |r| {
        r.set([4], "attempt=1");
        r.terms.is_calm = false;
    } => Cause;
    "the cancellation of the last attempt": claimed_again,
        |r| r.add("cancel 6 200050..200051 ids=7 got=-7") => Cancelled;
    "a probe that finds another dependency down": closed, |r| {
        r.handlers[3].phase = Phase::Outage;
        r.handlers[3].error = Some("the other one does not answer".to_owned());
    } => Breaker;
    "an older letter that the tick before did not leave": redriven_by_policy, |r| {
        let older = LeftLetter { letter: 6, version: 1, died_at: 10 };
        r.policy_ticks[0].left = Some(older);
    } => PolicyTick;
    "a tick that a fault cancels": cancelled_tick, |_| {} => PolicyTick;
};

pub(super) const BROKEN: &[Case] = cases! {
    // Places, leases, attempts and letters.
    "failed, but stored": succeeded, |r| {
        r.history[1].event = ClientEvent::Failed { error: String::new() };
    } => Honest;
    "never enqueued": succeeded, |r| r.history.clear() => NotInvented;
    "back after it had ended": succeeded, |r| r.add("5 50 r+") => NotInvented;
    "in two places": succeeded, |r| drop(r.trace.remove(1)) => OnePlace;
    "succeeded twice": succeeded, |r| r.trace.extend_from_within(1..) => OnePlace;
    "too many attempts": succeeded, |r| r.set([2], "max=0") => Attempts;
    "run without a claim": succeeded, |r| r.handlers[0].attempt = 3 => Attempts;
    "run twice": succeeded, |r| r.handlers.insert(1, handled(16, Phase::Begin)) => NoOverlap;
    "run again under a lost lease without a fault": claimed_by_the_lost_worker,
        |r| r.terms.is_calm = true => NoOverlap;
    "done in a transaction without its effect": succeeded,
        |r| r.handlers.iter_mut().for_each(|event| event.is_transactional = true) => OneTransaction;
    "held at a clean stop": succeeded, |r| {
        r.history.push(line("worker-1.1", 0, 20, ClientEvent::Exited { code: Some(0) }));
    } => CleanStop;
    "the wrong cause": rejected, |r| r.set([4], "cause=exhausted") => Cause;
    "charged without an attempt": cancelled, |r| r.set([4], "attempt=1") => Cause;
    "refunded after an attempt": cancelled,
        |r| r.handlers = vec![handled(15, Phase::Begin), handled(25, Phase::Retry)] => Attempts;
    "another generation": rejected, |r| r.set([4], "generation=2") => Lineage;
    "cancelled without a request": cancelled, |r| drop(r.history.pop()) => Cause;
    "a quarantined letter that is redriven": redriven, |r| r.set([4], "state=quarantined") => RedriveOnce;
    "a retry without a delay": retried, |r| r.set([4], "place=r due=") => Delay;
    "an existing job that had ended": slowly_committed, |r| r.set([3], "committed=500000") => OneOfAKey;
    // Changes of waiting jobs.
    "run at once without a request": run_now, |r| r.history.truncate(2) => Content;
    "run at once by another client": run_now, |r| r.set([2], "by=enqueuer-2.1") => Content;
    "run at once with another payload": run_now, |r| r.set([2], "payload={}") => Content;
    "run at once with fewer attempts": run_now, |r| r.set([2], "max=3") => Attempts;
    "promoted, but ready when the promotion came": retried,
        |r| r.trace[6].ready_at = Some(r.trace[6].at) => Unpredicted;
    "another priority than the new one": reordered_in_bulk, |r| r.set([2], "priority=6") => Content;
    "an edit of another field": edited_in_bulk,
        |r| r.set([2], r#"payload={"key":71,"edited":4}"#) => Content;
    "cancelled by an operation that edits": cancelled_in_bulk,
        |r| selection(r).change = LiveChange::Edit(4) => Cause;
    "a job of another queue": run_now, |r| selection(r).queue = "ordered".to_owned() => Unpredicted;
    "a job of another kind": run_now, |r| selection(r).kind = Some("batch".to_owned()) => Unpredicted;
    "a job of a lower priority": run_now, |r| selection(r).least_priority = Some(4) => Unpredicted;
    "more jobs than the limit": run_now, |r| selection(r).limit = 0 => Unpredicted;
    "a change that the answer leaves out": run_now,
        |r| r.history[4].event = ClientEvent::Ok { ids: Vec::new() } => Unpredicted;
    "a change that did not happen": run_now, |r| r.trace.truncate(1) => Unpredicted;
    "replaced without a request": replaced, |r| r.history.truncate(2) => Content;
    "an answer without a replacement": replaced, |r| r.trace.truncate(1) => UniqueModes;
    "raised twice": raised, |r| {
        r.carry(0, "priority=20");
        r.carry(2, "priority=21");
    } => Aged;
    "raised without a trace of its priority": raised, |r| r.set([2], r#"headers={"a":"b"}"#) => Content;
    "erased without a request": erased, |r| drop(r.history.pop()) => Kept;
    // Batches.
    "twice in a batch": in_batch, |r| r.handlers.insert(1, r.handlers[0].clone()) => Batch;
    "more jobs than the batch has": in_batch, |r| {
        for event in &mut r.handlers {
            event.batch.as_mut().expect("an event of a batch").jobs = 1;
        }
    } => Batch;
    "two that are on their last chance, and kill their process": in_batch, |r| {
        r.set([2, 6], "crashes=2");
        r.set([6, 7], "lease=2");
        r.handlers.retain(|event| event.phase == Phase::Begin);
    } => SuspectsAlone;
    "a job of another queue": in_batch, |r| r.carry(4, "queue=other") => Batch;
    // Breakers.
    "opened below the threshold": closed, |r| r.breakers[0].outages = 4 => Breaker;
    "opened by a stranger": opened_by_hand, |r| r.history.clear() => Breaker;
    "closed by a stranger": closed, |r| r.breakers[4].process = Arc::from("operator-1.1") => Breaker;
    "closed without a probe": closed, |r| drop(r.trace.pop()) => Breaker;
    "reopened after a successful probe": closed, |r| r.handlers[1].phase = Phase::Done => Breaker;
    "a probe that loses a kind": closed, |r| r.breakers[2].kinds.clear() => Breaker;
    "a probe of another worker that ends it": closed,
        |r| r.breakers[2].process = Arc::from("worker-2.1") => Breaker;
    "a failed probe with the same delay": closed, |r| r.breakers[2].delay_ms = 1000 => Breaker;
    "two jobs of one probe": closed, |r| {
        r.add("1 0 r+ job=8 kind=dependent; 3000000 3000011 r- job=8");
        r.add("3000000 3000011 l+ job=8 kind=dependent attempt=1");
        r.handlers.push(HandlerEvent { job: OTHER, ..r.handlers[0].clone() });
    } => Breaker;
    // What jobs carry; checkpoints, follow-ups and captures.
    "a promotion that rewrites the payload": retried,
        |r| r.set([6], r#"payload={"key":70}"#) => Content;
    "a redrive that rewrites the payload": redriven,
        |r| r.set([6], r#"payload={"key":70}"#) => Content;
    "a content that is not there": succeeded, |r| r.trace[2].facts = None => Content;
    "an edit that changes the priority": edited, |r| r.set([5], "priority=4") => Content;
    "an edit that nobody asked for": edited, |r| r.history.truncate(2) => Content;
    "an edit after its call had failed": edited, |r| {
        r.history[3].at = 39;
        r.history[3].event = ClientEvent::Failed { error: String::new() };
    } => Content;
    "an attempt that begins with another checkpoint": checkpointed,
        |r| r.handlers[0].checkpoint = Some(1) => Checkpoint;
    "a checkpoint that no attempt wrote": checkpointed, |r| r.checkpoints.clear() => Checkpoint;
    "a success without its follow-up": followed_up, |r| r.trace.truncate(4) => FollowUp;
    "a follow-up of another transaction": followed_up, |r| r.set([4], "tx=9") => FollowUp;
    "a follow-up of a job that failed": retried, |r| r.add("3 31 r+ job=8 key=-560") => FollowUp;
    "a cancelled job that is claimed again": claimed_again,
        |r| r.add("cancel 6 12..13 ids=7 got=-7") => Cancelled;
    "a capture that returns a letter of another position": captured,
        |r| r.set([0], "position=4") => Capture;
    // Histories.
    "a retry without an entry": retried, |r| r.set([4, 6], "history=") => History;
    "an entry of another attempt": retried,
        |r| r.set([4], &format!("history={}", history("failed").replace('1', "2"))) => History;
    "an entry with another error": retried, |r| r.handlers[1].error = Some("yes".to_owned()) => History;
    "an error that was lost with its secret": redacted, |r| r.carry(4, "error=[redacted]") => History;
    "an entry of a promotion": retried,
        |r| r.set([6], &format!("history={}", history("failed").replace("}]", r#"},{"attempt":2}]"#))) => History;
    "a reap with a failure": reaped, |r| r.set([4], "history=failed") => History;
    "a redriven job with a history": redriven, |r| r.set([6], "history=failed") => History;
    "a job that is enqueued with a history": succeeded, |r| r.set([0], "history=failed") => History;
    // Rows of letters.
    "a redrive that changes the priority": died_again,
        |r| r.letters[1].columns.push("priority".to_owned()) => Unpredicted;
    "a discard that did not happen": died_again, |r| r.add("discard 1 40..41 got=7") => Unpredicted;
    "a death with another time": died_again, |r| r.letters[2].died_at = 9 => Unpredicted;
    "a discarded letter that is redriven": died_again,
        |r| r.letters[0].state = Arc::from("discarded") => Unpredicted;
    "an operation that is recorded later": audited, |r| r.letters[1].tx = 2 => Unpredicted;
    "an open letter that is reopened as a quarantined one": reopened,
        |r| r.letters[2].state = Arc::from("quarantined") => LetterCounts;
    "deleted without a request": deleted, |r| r.history.clear() => Retention;
    "a new letter with edits": died_again, |r| r.letters[0].counts.edits = 1 => LetterCounts;
    "a lost worker with the error of a handler": died_again,
        |r| r.letters[0].cause = Arc::from("worker_lost") => Cause;
    // Schedules.
    "a tick before its time": ticked, |r| r.ticks[0].written = SECOND - 1 => Schedule;
    "a tick in a pause": ticked, |r| r.ticks.insert(1, tick(TickOutcome::Paused, 2 * SECOND, None, 1)) => Schedule;
    "two jobs of a tick": ticked, |r| r.add("1 0 r+ job=8 by=enqueuer-1.1 key=0") => Schedule;
    "two ticks with the same job": ticked,
        |r| r.ticks[1] = tick(TickOutcome::Fired, 2 * SECOND, Some(7), 1) => Schedule;
    "a tick that was skipped for a job that had ended": ticked,
        |r| r.ticks[1] = tick(TickOutcome::Overlapped, 2 * SECOND, Some(7), 1) => Schedule;
    "several due ticks of a schedule that runs the latest": ticked, |r| {
        r.add("1 0 r+ job=8 by=enqueuer-1.1 key=0");
        r.ticks[1] = tick(TickOutcome::Fired, 3 * SECOND, Some(OTHER), 1);
        for tick in &mut r.ticks {
            (tick.schedule, tick.tx) = ("chaos-once".to_owned(), 1);
        }
    } => Schedule;
    "a trigger that is not in the history": ticked, |r| {
        r.add("trigger 1 40..40 by=operator-1.1 got=8");
    } => Schedule;
    // Statements and policies.
    "a missing operator": succeeded, |r| r.wrong_statements.push("json = json".to_owned()) => ValidSql;
    "a redrive without a tick": redriven_by_policy, |r| r.policy_ticks.clear() => PolicyTick;
    "a tick that counts another number": redriven_by_policy, |r| r.policy_ticks[0].letters = 2 => PolicyTick;
    "a tick that moves the next one": redriven_by_policy, |r| r.policy_ticks[0].next += 1 => PolicyTick;
    "a tick that fails without a fault": cancelled_tick, |r| r.terms.is_calm = true => PolicyTick;
    "a letter of an old generation": redriven_by_policy,
        |r| r.letters.iter_mut().for_each(|row| row.counts.generation = 2) => PolicyTick;
    "an early tick": redriven_by_policy, |r| r.policy_ticks[0].began = SECOND - 6 => PolicyTick;
    "a tick that runs twice": redriven_by_policy, |r| r.policy_ticks[1].due -= SECOND => PolicyTick;
    // Jobs that expire, have no worker or a secret.
    "expired too early": expired, |r| r.set([3, 4], "at=1000") => Cause;
    "expired after an attempt": expired, |r| r.handlers = succeeded().handlers => Cause;
    "buried, although workers handle it": unhandled,
        |r| r.carry(0, "kind=work") => Cause;
    "a secret in the payload of a letter": redacted,
        |r| r.set([4], r#"payload={"key":70,"secret":"secret-70"}"#) => Content;
};
