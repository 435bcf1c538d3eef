//! The defects that the checker must notice: a correct history, a change that breaks it, and the rule. Those that a
//! mutant of redrive shows are not here.

use std::sync::Arc;

use super::letters::*;
use super::notation::{handled, history, line, rows};
use super::samples::*;
use super::{Records, Rule};
use crate::db_trace::{LeftLetter, Place, TickOutcome};
use crate::history::{ClientEvent, HandlerEvent, LiveChange, Phase};

type Life = fn() -> Records;
/// A name, a correct history, a change of it, and a rule.
type Case = (&'static str, Life, fn(&mut Records), Rule);

macro_rules! cases {
    ($($what:literal: $life:expr, $change:expr => $rule:ident;)+) => {
        &[$(($what, $life, $change, Rule::$rule)),+]
    };
}

/// What a fault, a failover or a late commit excuses.
pub(super) const EXCUSED: &[Case] = cases! {
    "a lost lease that is run after its process got the job again": || begun_at(&[1_000_130, 1_000_131]),
        |_| {} => NoOverlap;
    "an attempt that fits the lost lease": judged_by_the_next_lease,
        |r| r.terms.lossy_windows = vec![(0, SECOND)] => Verdict;
    "a bulk change without an answer, which takes effect later": run_now, |r| {
        r.history.pop();
        r.set([1, 2], "at=5000000");
        r.set([2], "ready=5000000");
    } => Content;
    "an acknowledged job that a failover lost before its answer arrived": succeeded, |r| {
        r.trace.clear();
        r.terms.lossy_windows.push((-5, 0));
    } => Honest;
    "a retry with others that a failover may have lost": split, |r| {
        r.set_jobs(4..5, 2);
        r.terms.lossy_windows.push((0, 200_031));
    } => Batch;
    "the cancellation of the last attempt": claimed_again, |r| r.cancel_running(200_050) => Cancelled;
    "a position that an erasure freed": captured_after_an_erasure, |_| {} => Capture;
    "a probe that finds another dependency down": closed, |r| {
        r.handlers[3].phase = Phase::Outage;
        r.handlers[3].error = Some("the gateway is down".to_owned());
    } => Breaker;
    "an older letter that the tick before did not leave": redriven_by_two_ticks,
        |r| r.policy_ticks[1].left = Some(left(6)) => PolicyTick;
    "an older letter whose row changed between the ticks": redriven_by_two_ticks, |r| {
        r.policy_ticks[1].left = Some(left(6));
        r.policy_ticks[0].left = Some(LeftLetter { version: 2, ..left(6) });
    } => PolicyTick;
};

pub(super) const BROKEN: &[Case] = cases! {
    // Places, leases, attempts and letters.
    "failed, but stored": succeeded, |r| {
        r.history[1].event = ClientEvent::Failed { error: String::new() };
    } => Honest;
    "never enqueued": succeeded, |r| r.history.clear() => NotInvented;
    "in two places": succeeded, |r| drop(r.trace.remove(1)) => OnePlace;
    "succeeded twice": succeeded, |r| r.trace.extend_from_within(1..) => OnePlace;
    "too many attempts": succeeded, |r| r.set([2], "max=0") => Attempts;
    "run without a claim": succeeded, |r| r.handlers[0].attempt = 3 => Attempts;
    "run twice": succeeded, |r| r.handlers.insert(1, handled(16, Phase::Begin)) => NoOverlap;
    "run again under a lost lease without a fault": || begun_at(&[1_000_130, 1_000_131]),
        |r| r.terms.is_calm = true => NoOverlap;
    "judged by an attempt under another lease": judged_by_the_next_lease, |r| {
        r.terms.lossy_windows = vec![(0, SECOND)];
        r.handlers.swap(1, 3);
        (r.handlers[1].at, r.handlers[1].call) = (1_000_131, 1);
        (r.handlers[3].at, r.handlers[3].call) = (1_000_133, 2);
    } => Verdict;
    "done in a transaction without its effect": ended_after_its_successor_began,
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
    "cancelled and charged, but never run without a fault": cancelled_before_it_began,
        |r| r.terms.is_calm = true => Cause;
    "an existing job that had ended": slowly_committed, |r| r.set([3], "committed=500000") => OneOfAKey;
    // Changes of waiting jobs.
    "run at once without a request": run_now, |r| r.history.truncate(2) => Content;
    "run at once by another client": run_now, |r| r.set([2], "by=enqueuer-2.1") => Content;
    "promoted, but ready when the promotion came": retried,
        |r| r.trace[6].ready_at = Some(r.trace[6].at) => Unpredicted;
    "run at once with another payload": run_now,
        |r| r.set([2], "payload={}") => Content;
    "run at once with fewer attempts": run_now, |r| r.set([2], "max=3") => Attempts;
    "a job of another queue": run_now, |r| selection(r).queue = "ordered".to_owned() => Unpredicted;
    "a job of another kind": run_now, |r| selection(r).kind = Some("batch".to_owned()) => Unpredicted;
    "a job of a lower priority": run_now, |r| selection(r).least_priority = Some(4) => Unpredicted;
    "more jobs than the limit": run_now, |r| selection(r).limit = 0 => Unpredicted;
    "a change that the answer leaves out": run_now,
        |r| r.history[4].event = ClientEvent::Ok { ids: Vec::new() } => Unpredicted;
    "a change that did not happen": run_now, |r| r.trace.truncate(1) => Unpredicted;
    "another priority than the new one": reordered_in_bulk, |r| r.set([2], "priority=6") => Content;
    "an edit of another field": edited_in_bulk, |r| r.set([2], r#"payload={"key":71,"edited":4}"#) => Content;
    "cancelled by an operation that edits": cancelled_in_bulk, |r| selection(r).change = LiveChange::Edit(4) => Cause;
    // Batches.
    "twice in a batch": split, |r| {
        let batch = r.handlers[0].batch;
        r.handlers[4..].iter_mut().for_each(|event| event.batch = batch);
    } => Batch;
    "more jobs than the batch has": split, |r| r.set_jobs(0..4, 1) => Batch;
    "a job of another queue": split, |r| r.carry(4, "queue=other") => Batch;
    // Breakers.
    "opened below the threshold": closed, |r| r.breakers[0].outages = 4 => Breaker;
    "opened by a stranger": opened_by_hand, |r| r.history.clear() => Breaker;
    "a probe of another worker that ends it": closed,
        |r| r.breakers[2].process = Arc::from("worker-2.1") => Breaker;
    "a failed probe with the same delay": closed, |r| r.breakers[2].delay_ms = 1000 => Breaker;
    "a probe that loses a kind": closed, |r| r.breakers[2].kinds.clear() => Breaker;
    "reopened after a successful probe": closed, |r| r.handlers[1].phase = Phase::Done => Breaker;
    "closed by nobody": closed, |r| r.breakers[4].process = Arc::from("operator-1.1") => Breaker;
    "closed without a probe": closed, |r| drop(r.trace.pop()) => Breaker;
    "two jobs of one probe": closed, |r| {
        r.trace.push(r.trace[0].clone());
        r.set([2], "job=8 at=3000011");
        r.handlers.push(HandlerEvent { job: OTHER, ..r.handlers[0].clone() });
    } => Breaker;
    // What jobs carry; checkpoints, follow-ups, delays, captures and ticks.
    "a promotion that rewrites the payload": retried,
        |r| r.set([6], r#"payload={"key":70}"#) => Content;
    "a redrive of the payload before the edit": edited,
        |r| r.set([7], r#"payload={"key":70}"#) => Content;
    "an edit that nobody asked for": edited, |r| r.history.truncate(2) => Content;
    "an edit that changes the priority": edited, |r| r.set([5], "priority=4") => Content;
    "a content that is not there": succeeded, |r| r.trace[2].facts = None => Content;
    "a quarantined letter that is redriven without force": redriven,
        |r| r.set([4], "state=quarantined") => RedriveOnce;
    "an attempt that begins with another checkpoint": checkpointed,
        |r| r.handlers[0].checkpoint = Some(1) => Checkpoint;
    "a checkpoint that no attempt wrote": checkpointed, |r| r.checkpoints.clear() => Checkpoint;
    "a success without its follow-up": followed_up, |r| r.trace.truncate(4) => FollowUp;
    "a follow-up of another transaction": followed_up, |r| r.set([4], "tx=9") => FollowUp;
    "a follow-up of a job that failed": retried, |r| r.add("3 31 r+ job=8 key=-560") => FollowUp;
    "a retry that is due too early": retried, |r| r.trace[4].due = Some(150_030 - 1) => Delay;
    "a retry without a delay": retried,
        |r| (r.trace[4].place, r.trace[4].due) = (Place::Ready, None) => Delay;
    "a cancelled job that is claimed again": claimed_again,
        |r| r.cancel_running(12) => Cancelled;
    "two letters of a position": captured, |r| {
        r.trace.push(r.trace[0].clone());
        r.set([1], "job=8 at=60 seq=600");
    } => Capture;
    "a capture that returns a letter of another position": captured,
        |r| r.set([0], "position=4") => Capture;
    "two jobs of a tick": ticked, |r| r.add("1 0 r+ job=8 by=enqueuer-1.1 key=0") => Schedule;
    "two ticks with the same job": ticked,
        |r| r.ticks[1] = tick(TickOutcome::Fired, 2 * SECOND, Some(7), 1) => Schedule;
    // Histories.
    "a retry without an entry": retried, |r| r.set([4, 6], "history=") => History;
    "an entry with another error": retried, |r| r.handlers[1].error = Some("yes".to_owned()) => History;
    "an entry of another attempt": retried,
        |r| r.set([4], &format!("history={}", history("failed").replace('1', "2"))) => History;
    "an entry of a job that was only promoted": retried,
        |r| r.set([6], "history=[[1,2,null],[2,3,null]]") => History;
    "a reap with a failure": reaped, |r| r.set([4], "history=failed") => History;
    "a redriven job with a history": redriven, |r| r.set([6], "history=failed") => History;
    "a job that is enqueued with a history": succeeded, |r| r.set([0], "history=failed") => History;
    // Rows of letters.
    "a redrive that changes the priority": died_again,
        |r| r.letters[1].columns.push("priority".to_owned()) => Unpredicted;
    "an operation that is recorded later": audited, |r| r.letters[1].tx = 2 => Unpredicted;
    "an operation that is recorded for a failure of a handler": audited,
        |r| r.letters.iter_mut().for_each(|row| row.cause = Arc::from("rejected")) => Unpredicted;
    "a death with another time": died_again, |r| r.letters[2].died_at = 9 => Unpredicted;
    "a discarded letter that is redriven": died_again,
        |r| r.letters[0].state = Arc::from("discarded") => Unpredicted;
    "a column that no operation changes": edited_letter,
        |r| r.letters[1].columns = vec!["content_type".to_owned()] => Unpredicted;
    "a quarantined letter that is reopened as an open one": reopened,
        |r| r.letters[8].state = Arc::from("open") => LetterCounts;
    "a new letter with edits": died_again, |r| r.letters[0].counts.edits = 1 => LetterCounts;
    "a lost worker with the error of a handler": died_again,
        |r| r.letters[0].cause = Arc::from("worker_lost") => Cause;
    // Schedules, pauses and rate limits.
    "ready at once, too": put_off, |r| drop(r.trace.splice(5..5, rows("2 10 r+"))) => OnePlace;
    "a tick before its time": ticked, |r| r.ticks[0].written = SECOND - 1 => Schedule;
    "a tick in a pause": ticked, |r| r.ticks.insert(1, tick(TickOutcome::Paused, 2 * SECOND, None, 1)) => Schedule;
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
    // Updates in place, retention and policies.
    "a lease with other jobs": updated_rows, |r| r.updates[0].changed = vec!["ids".to_owned()] => Unpredicted;
    "a lease that an operator settles": updated_rows,
        |r| r.updates[0].process = Arc::from(OPERATOR) => Unpredicted;
    "a cancellation that nobody asked for": updated_rows, |r| r.history.clear() => Unpredicted;
    "a missing operator": succeeded, |r| r.wrong_statements.push("json = json".to_owned()) => ValidSql;
    "archived without a request": deleted, |r| r.history.clear() => Retention;
    "archived, but still a letter": restored, |r| drop(r.letters.remove(2)) => Retention;
    "restored with another content": restored, |r| r.letters[4].content = Arc::from("other") => Retention;
    "lost by the archive": restored, |r| drop(r.letters.remove(4)) => Retention;
    "restored as another state": restored, |r| r.letters[4].state = Arc::from("quarantined") => LetterCounts;
    "a redrive without a tick": redriven_by_policy, |r| r.policy_ticks.clear() => PolicyTick;
    "a tick that counts another number": redriven_by_policy, |r| r.policy_ticks[0].letters = 2 => PolicyTick;
    "an early tick": redriven_by_policy, |r| r.policy_ticks[0].began = SECOND - 6 => PolicyTick;
    "a tick that runs twice": redriven_by_policy, |r| r.policy_ticks[1].due -= SECOND => PolicyTick;
    "a tick that moves the next one": redriven_by_policy, |r| r.policy_ticks[0].next += 1 => PolicyTick;
    "a letter of an old generation": redriven_by_policy,
        |r| r.letters.iter_mut().for_each(|row| row.counts.generation = 2) => PolicyTick;
    "a tick that fails without a fault": cancelled_tick, |r| r.terms.is_calm = true => PolicyTick;
    // Modes of unique keys.
    "an answer without a replacement": replaced, |r| r.trace.truncate(1) => UniqueModes;
    "replaced without a request": replaced, |r| r.history.truncate(2) => Content;
    "replaced, but as the holder of its key for another client": replaced,
        |r| r.history[3].event = ClientEvent::Ok { ids: vec![-OTHER, OTHER] } => UniqueModes;
    "reported as the holder after the start": stored_after_start, |r| {
        r.trace.truncate(4);
        (r.history[2].at, r.history[3].at) = (900_000, 900_001);
        r.history[3].event = ClientEvent::Ok { ids: vec![-7] };
    } => OneOfAKey;
    // Jobs that expire, are raised, have no worker or a secret, or are erased.
    "expired too early": expired, |r| r.set([3, 4], "at=1000") => Cause;
    "expired after an attempt": expired, |r| r.handlers = succeeded().handlers => Cause;
    "raised twice": raised, |r| {
        r.carry(0, "priority=20");
        r.carry(2, "priority=21");
    } => Aged;
    "raised without a trace of its priority": raised, |r| r.set([2], r#"headers={"a":"b"}"#) => Content;
    "buried, although workers handle it": unhandled,
        |r| r.carry(0, "kind=work") => Cause;
    "a secret in the payload of a letter": redacted,
        |r| r.set([4], r#"payload={"key":70,"secret":"secret-70"}"#) => Content;
    "an error that was lost with its secret": redacted,
        |r| r.carry(4, "error=[redacted]") => History;
    "an entry of the history with its secret": redacted,
        |r| r.set([4], &format!("history={}", history("failed").replace("no", "secret-1"))) => History;
    "erased without a request": erased, |r| drop(r.history.pop()) => Kept;
};
