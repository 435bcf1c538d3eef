//! The defects that the checker must notice: a correct history, a change that breaks it, and the rule.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::letters::*;
use super::notation::{handled, history, line, rows};
use super::samples::*;
use super::{Records, Rule};
use crate::db_trace::{Change, LeftLetter, LetterRow, PauseChange, Place, RunOrigin, TickOutcome};
use crate::history::{ClientEvent, HandlerEvent, LiveChange, Phase};
use crate::role::gateway::NO_ANSWER;

type Life = fn() -> Records;
/// A name, a correct history, a change of it, and a rule.
type Case = (&'static str, Life, fn(&mut Records), Rule);

macro_rules! cases {
    ($($what:literal: $life:expr, $change:expr => $rule:ident;)+) => {
        &[$(($what, $life, $change, Rule::$rule)),+]
    };
}

macro_rules! lives {
    ($($life:path)+) => { &[$((stringify!($life), $life)),+] };
}

pub(super) const CORRECT: &[(&str, Life)] = lives! {
    succeeded retried rejected cancelled cancelled_before_it_began slowly_committed reaped slowly_reaped
    redriven edited reordered checkpointed followed_up captured ticked put_off split
    run_now reordered_in_bulk edited_in_bulk cancelled_in_bulk
    replaced stored_after_window stored_after_start expired raised unhandled redacted erased
    judged_by_the_next_lease ended_after_its_successor_began
    died_again died_edited edited_letter audited reopened restored deleted sent_by_a_run
    redriven_by_policy redriven_by_two_ticks updated_rows opened_by_hand cancelled_tick
};

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
    "a suspect alone": suspected, |_| {} => Batch;
    "the cancellation of the last attempt": claimed_again, |r| r.cancel_running(200_050) => Cancelled;
    "a position that an erasure freed": captured_after_an_erasure, |_| {} => Capture;
    "a breaker that opens and closes": closed, |_| {} => Breaker;
    "a probe that finds another dependency down": closed, |r| {
        r.handlers[3].phase = Phase::Outage;
        r.handlers[3].error = Some("the gateway is down".to_owned());
    } => Breaker;
    "a worker that may not have read the pause": started_in_pause, |r| r.renewals.truncate(3) => Paused;
    "a pause of another queue": started_in_pause, |r| r.pauses[0].queue = Arc::from("other") => Paused;
    "a pause that is over": started_in_pause, |r| r.pauses[0].ends_at = 5 * SECOND => Paused;
    "a queue that was resumed": started_in_pause, |r| {
        let (at, ends_at) = (5 * SECOND, 0);
        r.pauses.push(PauseChange { at, ends_at, ..r.pauses[0].clone() });
    } => Paused;
    "a start that a failover may have lost": started_in_pause,
        |r| r.terms.lossy_windows.push((5 * SECOND, 7 * SECOND)) => Paused;
    "one start per second": || limited(20),
        |r| (0..).zip(&mut r.handlers).for_each(|(number, event)| event.at += number * SECOND) => RateLimit;
    "a limit of another queue": || limited(20), |r| r.rate_limits[0].queue = "other".to_owned() => RateLimit;
    "each group within its limit": limited_groups, |_| {} => RateLimit;
    "a job without a group": limited_groups, |r| {
        r.set([0, 2], "group=");
        r.handlers.insert(0, handled(15, Phase::Begin));
    } => RateLimit;
    "an older letter that the tick before did not leave": redriven_by_two_ticks,
        |r| r.policy_ticks[1].left = Some(left(6)) => PolicyTick;
    "an older letter whose row changed between the ticks": redriven_by_two_ticks, |r| {
        r.policy_ticks[1].left = Some(left(6));
        r.policy_ticks[0].left = Some(LeftLetter { version: 2, ..left(6) });
    } => PolicyTick;
    "a run without a validation": sent_by_a_run, |r| {
        let reason = Arc::from("chaos");
        r.letters[1].run = Some(RunOrigin { by: Arc::from(OPERATOR), reason });
        r.validated(&[], &[7]);
    } => Validated;
};

pub(super) const BROKEN: &[Case] = cases! {
    // Places, leases, attempts and letters.
    "lost": succeeded, |r| r.trace.clear() => Honest;
    "failed, but stored": succeeded, |r| {
        r.history[1].event = ClientEvent::Failed { error: String::new() };
    } => Honest;
    "never enqueued": succeeded, |r| r.history.clear() => NotInvented;
    "vanished": succeeded, |r| r.trace.truncate(2) => Kept;
    "truncated": succeeded, |r| r.trace[1].change = Change::Truncated => Kept;
    "in two places": succeeded, |r| drop(r.trace.remove(1)) => OnePlace;
    "succeeded twice": succeeded, |r| r.trace.extend_from_within(1..) => OnePlace;
    "succeeded twice in a generation": succeeded, |r| {
        r.add("5 50 r+\n6 60 r-\n6 60 l+ attempt=1 lease=2\n7 70 l- attempt=1 lease=2");
    } => OneSuccess;
    "settled by another worker": succeeded, |r| r.set([3], "by=worker-2.1") => Fenced;
    "claimed into a lease of another claim": succeeded, |r| {
        r.add("11 0 r+ job=8\n12 10 r- job=8\n12 10 l+ job=8 attempt=1");
    } => Fenced;
    "not charged": succeeded, |r| r.set([2], "attempt=0") => Attempts;
    "too many attempts": succeeded, |r| r.set([2], "max=0") => Attempts;
    "run without a claim": succeeded, |r| r.handlers[0].attempt = 3 => Attempts;
    "run before the claim": succeeded, |r| r.handlers[0].at = 5 => Attempts;
    "done, but the handler failed": succeeded, |r| r.handlers[1].phase = Phase::Retry => Verdict;
    "done without an attempt": succeeded, |r| r.handlers.clear() => Verdict;
    "run twice": succeeded, |r| r.handlers.insert(1, handled(16, Phase::Begin)) => NoOverlap;
    "run again under a lost lease without a fault": || begun_at(&[1_000_130, 1_000_131]),
        |r| r.terms.is_calm = true => NoOverlap;
    "run twice under a lease": || begun_at(&[15, 1_000_130, 1_000_131]), |_| {} => NoOverlap;
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
    "an effect of a job that did not succeed": succeeded,
        |r| r.effects = BTreeMap::from([((7, 1), 1)]) => OneTransaction;
    "a wrong counter": succeeded,
        |r| r.counters = BTreeMap::from([("redrive_jobs_enqueued_total".to_owned(), 2)]) => Counters;
    "promoted early": retried, |r| r.set([4], "due=200000") => NotEarly;
    "charged for an outage": retried, |r| r.handlers[1].phase = Phase::Outage => OutageFree;
    "refunded twice": retried, |r| r.set([4], "attempt=-1") => Attempts;
    "the wrong cause": rejected, |r| r.set([4], "cause=exhausted") => Cause;
    "a lost worker that settled": rejected, |r| r.set([4], "cause=worker_lost") => Cause;
    "refunded without a cancellation": rejected, |r| r.set([4], "attempt=0") => Attempts;
    "charged without an attempt": cancelled, |r| r.set([4], "attempt=1") => Cause;
    "refunded after an attempt": cancelled,
        |r| r.handlers = vec![handled(15, Phase::Begin), handled(25, Phase::Retry)] => Attempts;
    "another generation": rejected, |r| r.set([4], "generation=2") => Lineage;
    "an open letter deleted": rejected, |r| r.add("9 50 x-") => LawfulPrune;
    "redriven, but the letter stays open": rejected, |r| r.add("9 50 r+ generation=1") => RedriveOnce;
    "reaped too early": || reaped_at(1_000_004), |_| {} => LawfulReap;
    "reaped right after a restart": reaped, |r| r.terms.server_starts.push(50) => LawfulReap;
    "a suspect that shares its lease": reaped, |r| {
        r.add("9 1000120 r- crashes=1\n9 1000120 l+ crashes=1 attempt=1 lease=2\n9 1000120 l+ job=8 lease=2");
    } => SuspectsAlone;
    "cancelled without a request": cancelled, |r| drop(r.history.pop()) => Cause;
    "cancelled and charged, but never run without a fault": cancelled_before_it_began,
        |r| r.terms.is_calm = true => Cause;
    "an existing job that had ended": slowly_committed, |r| r.set([3], "committed=500000") => OneOfAKey;
    "a key held twice": succeeded, |r| {
        r.add("11 0 r+ job=8 key=71");
        r.set(0..5, "unique=k");
    } => OneOfAKey;
    // Changes of waiting jobs.
    "run at once without a request": run_now, |r| r.history.truncate(2) => Content;
    "run at once by another client": run_now, |r| r.set([2], "by=enqueuer-2.1") => Content;
    "run at once after the answer": run_now, |r| r.set([2], "at=42") => Content;
    "run at once, but ready when it was due": run_now, |r| r.trace[2].ready_at = Some(DUE) => Unpredicted;
    "promoted, but ready when the promotion came": retried,
        |r| r.trace[6].ready_at = Some(r.trace[6].at) => Unpredicted;
    "run at once with another priority": run_now, |r| r.set([2], "priority=4") => Content;
    "run at once with another payload": run_now,
        |r| r.set([2], "payload={}") => Content;
    "run at once without its headers": run_now, |r| r.set([2], "headers=") => Content;
    "run at once with fewer attempts": run_now, |r| r.set([2], "max=3") => Attempts;
    "a job of another queue": run_now, |r| selection(r).queue = "ordered".to_owned() => Unpredicted;
    "a job of another kind": run_now, |r| selection(r).kind = Some("batch".to_owned()) => Unpredicted;
    "a job of a lower priority": run_now, |r| selection(r).least_priority = Some(4) => Unpredicted;
    "more jobs than the limit": run_now, |r| selection(r).limit = 0 => Unpredicted;
    "a change that the answer leaves out": run_now,
        |r| r.history[4].event = ClientEvent::Ok { ids: Vec::new() } => Unpredicted;
    "a change that did not happen": run_now, |r| r.trace.truncate(1) => Unpredicted;
    "another priority than the new one": reordered_in_bulk, |r| r.set([2], "priority=6") => Content;
    "a new priority that makes the job ready": reordered_in_bulk,
        |r| (r.trace[2].place, r.trace[2].due) = (Place::Ready, None) => Content;
    "a new priority that delays the job": reordered_in_bulk, |r| r.trace[2].due = Some(DUE + 1) => Content;
    "an edit of another field": edited_in_bulk, |r| r.set([2], r#"payload={"key":71,"edited":4}"#) => Content;
    "cancelled by an operation that edits": cancelled_in_bulk, |r| selection(r).change = LiveChange::Edit(4) => Cause;
    "cancelled in another queue": cancelled_in_bulk, |r| selection(r).queue = "ordered".to_owned() => Unpredicted;
    // Batches.
    "charged, although only its neighbour failed": split, |r| r.handlers[3].phase = Phase::Done => Batch;
    "done, although it failed like its neighbour": split, |r| r.handlers[1].phase = Phase::Retry => Batch;
    "again with others after a failure": split, |r| r.set_jobs(4..5, 2) => Batch;
    "with others after a failure that was not charged": split, |r| {
        for row in r.trace.iter_mut().filter(|row| row.job == OTHER && row.at > 30) {
            row.attempt -= 1;
        }
        r.set_jobs(4..5, 2);
        (r.handlers[4].attempt, r.handlers[5].attempt) = (1, 1);
    } => Batch;
    "a suspect with others": suspected, |r| r.set_jobs(1..2, 2) => Batch;
    "twice in a batch": split, |r| {
        let batch = r.handlers[0].batch;
        r.handlers[4..].iter_mut().for_each(|event| event.batch = batch);
    } => Batch;
    "more jobs than the batch has": split, |r| r.set_jobs(0..4, 1) => Batch;
    "a job of another queue": split, |r| r.carry(4, "queue=other") => Batch;
    // Breakers.
    "opened below the threshold": closed, |r| r.breakers[0].outages = 4 => Breaker;
    "opened twice at once": closed, |r| r.breakers[0].openings = 2 => Breaker;
    "opened by a stranger": opened_by_hand, |r| r.history.clear() => Breaker;
    "probed before it was due": closed, |r| r.breakers[0].probe_at = Some(4 * SECOND) => Breaker;
    "a probe without a number": closed, |r| r.breakers[1].probes = 0 => Breaker;
    "a probe without a prober": closed, |r| r.breakers[1].prober = None => Breaker;
    "a probe of another worker that ends it": closed,
        |r| r.breakers[2].process = Arc::from("worker-2.1") => Breaker;
    "a failed probe with the same delay": closed, |r| r.breakers[2].delay_ms = 1000 => Breaker;
    "a probe that loses a kind": closed, |r| r.breakers[2].kinds.clear() => Breaker;
    "closed after a failed probe": closed, |r| {
        r.handlers[3].phase = Phase::Outage;
        r.handlers[3].error = Some(NO_ANSWER.to_owned());
    } => Breaker;
    "reopened after a successful probe": closed, |r| r.handlers[1].phase = Phase::Done => Breaker;
    "closed by nobody": closed, |r| r.breakers[4].process = Arc::from("operator-1.1") => Breaker;
    "closed without a probe": closed, |r| drop(r.trace.pop()) => Breaker;
    "two jobs of one probe": closed, |r| {
        r.trace.push(r.trace[0].clone());
        r.set([2], "job=8 at=3000011");
        r.handlers.push(HandlerEvent { job: OTHER, ..r.handlers[0].clone() });
    } => Breaker;
    "a start by a worker that knows": closed, |r| {
        r.add("60 6000000 l+ job=8 kind=dependent attempt=1 by=worker-2.1");
        r.trace[2].worker = Some(STRANGER);
    } => Breaker;
    // What jobs carry; checkpoints, follow-ups, delays, captures and ticks.
    "a claim that loses the priority": succeeded, |r| r.set([2], "priority=0") => Content;
    "a claim that changes the kind": succeeded,
        |r| r.set([2], "kind=other") => Content;
    "a retry that loses the headers": retried, |r| r.set([4], "headers=") => Content;
    "a promotion that loses the group key": retried,
        |r| r.set([6], "group=") => Content;
    "a promotion that rewrites the payload": retried,
        |r| r.set([6], r#"payload={"key":70}"#) => Content;
    "a reap that resets the time of the first enqueue": reaped,
        |r| r.set([4], "enqueued=1000006") => Content;
    "a reap that loses the unique key": reaped,
        |r| r.set([4], "unique=k") => Content;
    "a death that alters the payload": rejected,
        |r| r.set([4], r#"payload={"key":71}"#) => Content;
    "a death that loses the priority": rejected, |r| r.set([4], "priority=0") => Content;
    "a redrive of the payload before the edit": edited,
        |r| r.set([7], r#"payload={"key":70}"#) => Content;
    "a redrive that loses the priority": redriven, |r| r.set([6], "priority=0") => Content;
    "an edit that nobody asked for": edited, |r| r.history.truncate(2) => Content;
    "an edit that changes the priority": edited, |r| r.set([5], "priority=4") => Content;
    "a priority that nobody changed": reordered, |r| r.history.truncate(2) => Content;
    "a content that is not there": succeeded, |r| r.trace[2].facts = None => Content;
    "a quarantined letter that is redriven without force": quarantined,
        |r| r.set([5], "state=redriving") => RedriveOnce;
    "an attempt that begins with another checkpoint": checkpointed,
        |r| r.handlers[0].checkpoint = Some(1) => Checkpoint;
    "a checkpoint that no attempt wrote": checkpointed, |r| r.checkpoints.clear() => Checkpoint;
    "a failure whose last checkpoint is not stored": checkpointed, |r| {
        r.add("checkpoint 21 checkpoint=2");
    } => Checkpoint;
    "a checkpoint that the retry loses": checkpointed, |r| r.set([5], r#"headers={"a":"b"}"#) => Content;
    "a success without its follow-up": followed_up, |r| r.trace.truncate(4) => FollowUp;
    "a follow-up of another transaction": followed_up, |r| r.set([4], "tx=9") => FollowUp;
    "two follow-ups": followed_up, |r| r.add("3 31 r+ job=9 key=-560") => FollowUp;
    "a follow-up of a job that failed": retried, |r| r.add("3 31 r+ job=8 key=-560") => FollowUp;
    "a retry that is due too early": retried, |r| r.trace[4].due = Some(150_030 - 1) => Delay;
    "a retry that is due too late": retried, |r| r.set([4], "due=150032") => Delay;
    "a retry without a delay": retried,
        |r| (r.trace[4].place, r.trace[4].due) = (Place::Ready, None) => Delay;
    "a cancelled job that is claimed again": claimed_again,
        |r| r.cancel_running(12) => Cancelled;
    "two letters of a position": captured, |r| {
        r.trace.push(r.trace[0].clone());
        r.set([1], "job=8 at=60 seq=600");
    } => Capture;
    "a position that is not free": captured_after_an_erasure, |r| drop(r.trace.drain(3..5)) => Capture;
    "a capture that returns a letter of another position": captured,
        |r| r.set([0], "position=4") => Capture;
    "a capture without a letter": captured, |r| r.trace.clear() => Capture;
    "two jobs of a tick": ticked, |r| r.add("1 0 r+ job=8 by=enqueuer-1.1 key=0") => Schedule;
    "a tick without its job": ticked, |r| r.ticks[0].job = Some(OTHER) => Schedule;
    "two ticks with the same job": ticked,
        |r| r.ticks[1] = tick(TickOutcome::Fired, 2 * SECOND, Some(7), 1) => Schedule;
    "a tick that is not in the history": ticked, |r| r.ticks[1].ticks = 1 => Schedule;
    // Histories.
    "a retry without an entry": retried, |r| r.set([4, 6], "history=") => History;
    "an entry with another error": retried, |r| r.handlers[1].error = Some("yes".to_owned()) => History;
    "an entry with another class": retried, |r| r.handlers[1].class = Some("Worse".to_owned()) => History;
    "an entry of another attempt": retried,
        |r| r.set([4], &format!("history={}", history("failed").replace('1', "2"))) => History;
    "an entry of a job that was only promoted": retried,
        |r| r.set([6], "history=[[1,2,null],[2,3,null]]") => History;
    "a promotion that loses the history": retried, |r| r.set([6], "history=") => History;
    "a reap without an entry": reaped, |r| r.set([4], "history=") => History;
    "a reap with a failure": reaped, |r| r.set([4], "history=failed") => History;
    "a letter with another error": rejected,
        |r| r.set([4], "error=yes") => History;
    "a letter with another class": rejected,
        |r| r.set([4], "class=Worse") => History;
    "a letter without a class": rejected, |r| r.set([4], "class=") => History;
    "a letter with an attempt that did not happen": rejected,
        |r| r.set([4], "history=failed") => History;
    "a redriven job with a history": redriven, |r| r.set([6], "history=failed") => History;
    "a redrive that changes the history of the letter": redriven,
        |r| r.set([5], "history=failed") => History;
    "a job that is enqueued with a history": succeeded, |r| r.set([0], "history=failed") => History;
    // Rows of letters.
    "a redrive that changes the priority": died_again,
        |r| r.letters[1].columns.push("priority".to_owned()) => Unpredicted;
    "a redrive that keeps the time of the change": died_again,
        |r| drop(r.letters[1].columns.remove(1)) => Unpredicted;
    "an operation that is recorded later": audited, |r| r.letters[1].tx = 2 => Unpredicted;
    "an operation that is recorded for a failure of a handler": audited,
        |r| r.letters.iter_mut().for_each(|row| row.cause = Arc::from("rejected")) => Unpredicted;
    "a death with another time": died_again, |r| r.letters[2].died_at = 9 => Unpredicted;
    "a discarded letter that is redriven": died_again,
        |r| r.letters[0].state = Arc::from("discarded") => Unpredicted;
    "a column that no operation changes": edited_letter,
        |r| r.letters[1].columns = vec!["content_type".to_owned()] => Unpredicted;
    "a death that is not counted": died_again, |r| r.letters[2].counts.deaths = 1 => LetterCounts;
    "a death that loses the earlier attempts": died_again,
        |r| r.letters[2].counts.earlier = 0 => LetterCounts;
    "a death that is alike and not counted": died_again, |r| r.letters[2].counts.alike = 0 => LetterCounts;
    "a death that counts two edits": died_edited, |r| r.letters[2].counts.edits = 2 => LetterCounts;
    "a failed redrive that is not counted": died_again, |r| r.letters[2].counts.failed = 0 => LetterCounts;
    "a letter that is quarantined too early": died_again,
        |r| r.letters[2].state = Arc::from("quarantined") => LetterCounts;
    "a letter that is not quarantined at its limit": reopened, |r| {
        r.letters.truncate(7);
        r.letters[6].state = Arc::from("open");
    } => LetterCounts;
    "a quarantined letter that is reopened as an open one": reopened,
        |r| r.letters[8].state = Arc::from("open") => LetterCounts;
    "a new letter with edits": died_again, |r| r.letters[0].counts.edits = 1 => LetterCounts;
    "an edit that is not counted": edited_letter, |r| r.letters[1].counts.edits = 0 => LetterCounts;
    "a lost worker with the error of a handler": died_again,
        |r| r.letters[0].cause = Arc::from("worker_lost") => Cause;
    "a secret in a letter": edited_letter, |r| r.letters[1].has_secret = true => Redaction;
    // Schedules, pauses and rate limits.
    "charged": put_off, |r| r.set([4], "attempt=1") => Verdict;
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
    "an overlap that no key prevents": ticked, |r| {
        r.ticks.truncate(1);
        r.ticks[0].schedule = "chaos-overlap".to_owned();
    } => Schedule;
    "a trigger that is not in the history": ticked, |r| {
        r.add("trigger 1 40..40 by=operator-1.1 got=8");
    } => Schedule;
    "a start in a known pause": started_in_pause, |_| {} => Paused;
    "a start in a known pause after a failover": started_in_pause,
        |r| r.terms.lossy_windows.push((0, SECOND)) => Paused;
    "more starts at once than the limit": || limited(20), |_| {} => RateLimit;
    "more starts of a queue than its limit": limited_groups,
        |r| r.rate_limits[0].is_of_each_group = false => RateLimit;
    "more starts of a group than its limit": limited_groups,
        |r| r.handlers.insert(0, handled(15, Phase::Begin)) => RateLimit;
    "more starts of one of two names": limited_groups, |r| {
        r.set([0, 2], "group=other");
        r.handlers.insert(0, handled(15, Phase::Begin));
    } => RateLimit;
    // Updates in place, retention and policies.
    "a lease with other jobs": updated_rows, |r| r.updates[0].changed = vec!["ids".to_owned()] => Unpredicted;
    "a lease that an operator settles": updated_rows,
        |r| r.updates[0].process = Arc::from(OPERATOR) => Unpredicted;
    "a job that is updated in place": updated_rows, |r| r.updates[0].relation = "jobs".to_owned() => Unpredicted;
    "a cancellation that nobody asked for": updated_rows, |r| r.history.clear() => Unpredicted;
    "a unique key without a job": updated_rows, |r| r.leftovers.push("unique keys: 1".to_owned()) => Leftover;
    "a missing operator": succeeded, |r| r.wrong_statements.push("json = json".to_owned()) => ValidSql;
    "archived too early": restored, |r| r.letters[2].began = 300_000 => Retention;
    "archived without a request": deleted, |r| r.history.clear() => Retention;
    "deleted instead of archived": restored, |r| drop(r.letters.remove(3)) => Retention;
    "archived with another content": restored, |r| r.letters[3].content = Arc::from("other") => Retention;
    "archived, but still a letter": restored, |r| drop(r.letters.remove(2)) => Retention;
    "restored, but still in the archive": restored, |r| drop(r.letters.pop()) => Retention;
    "restored with another content": restored, |r| r.letters[4].content = Arc::from("other") => Retention;
    "lost by the archive": restored, |r| drop(r.letters.remove(4)) => Retention;
    "restored as another state": restored, |r| r.letters[4].state = Arc::from("quarantined") => LetterCounts;
    "deleted too early": deleted, |r| r.letters[2].began = SECOND => Retention;
    "an open letter deleted": deleted, |r| {
        r.letters.remove(1);
        r.letters[1].state = Arc::from("open");
    } => Retention;
    "a redrive without a tick": redriven_by_policy, |r| r.policy_ticks.clear() => PolicyTick;
    "a tick that counts another number": redriven_by_policy, |r| r.policy_ticks[0].letters = 2 => PolicyTick;
    "an early tick": redriven_by_policy, |r| r.policy_ticks[0].began = SECOND - 6 => PolicyTick;
    "a tick that runs twice": redriven_by_policy, |r| r.policy_ticks[1].due -= SECOND => PolicyTick;
    "a tick that moves the next one": redriven_by_policy, |r| r.policy_ticks[0].next += 1 => PolicyTick;
    "a tick of an operator": redriven_by_policy,
        |r| r.policy_ticks[0].process = Arc::from(OPERATOR) => PolicyTick;
    "a letter of an old generation": redriven_by_policy,
        |r| r.letters.iter_mut().for_each(|row| row.counts.generation = 2) => PolicyTick;
    "a younger letter before an older one": redriven_by_two_ticks,
        |r| r.policy_ticks.iter_mut().for_each(|tick| tick.left = Some(left(6))) => PolicyTick;
    "a tick that fails without a fault": cancelled_tick, |r| r.terms.is_calm = true => PolicyTick;
    "more letters than a batch": redriven_by_policy, |r| {
        for letter in [8, 9] {
            let others = r.letters[..2].to_vec();
            r.letters.extend(others.into_iter().map(|row| LetterRow { letter, ..row }));
        }
        r.policy_ticks[0].letters = 3;
    } => PolicyTick;
    // Modes of unique keys.
    "an answer without a replacement": replaced, |r| r.trace.truncate(1) => UniqueModes;
    "replaced by another client": replaced, |r| r.set([1], "by=enqueuer-2.1") => UniqueModes;
    "replaced before the call": replaced, |r| r.set([1], "at=38") => UniqueModes;
    "replaced without a request": replaced, |r| r.history.truncate(2) => Content;
    "replaced, but as the holder of its key for another client": replaced,
        |r| r.history[3].event = ClientEvent::Ok { ids: vec![-OTHER, OTHER] } => UniqueModes;
    "stored within the window": stored_after_window, |r| r.trace[4].at -= 1 => UniqueModes;
    "within the window, but reported as new": stored_after_window,
        |r| (r.trace[4].at, r.history[2].at, r.history[3].at) = (60, 50, 70) => UniqueModes;
    "a key that is not free at the start": stored_after_start, |r| r.set([2], "headers=") => OneOfAKey;
    "a key that is enqueued again before the start": stored_after_start,
        |r| (r.trace[4].seq, r.trace[4].at) = (50, 5) => OneOfAKey;
    "reported as the holder after the start": stored_after_start, |r| {
        r.trace.truncate(4);
        r.final_rows.clear();
        (r.history[2].at, r.history[3].at) = (900_000, 900_001);
        r.history[3].event = ClientEvent::Ok { ids: vec![-7] };
    } => OneOfAKey;
    // Validations.
    "a letter that failed": sent_by_a_run, |r| r.validated(&[8], &[7]) => Validated;
    "a letter that was not validated": sent_by_a_run, |r| r.validated(&[], &[]) => Validated;
    // Jobs that expire, are raised, have no worker or a secret, or are erased.
    "expired too early": expired, |r| r.set([3, 4], "at=1000") => Cause;
    "expired without a limit": expired, |r| r.carry(0, "headers=") => Cause;
    "expired after an attempt": expired, |r| r.handlers = succeeded().handlers => Cause;
    "raised too early": raised, |r| r.set([1, 2], "at=1999999") => Aged;
    "raised twice": raised, |r| {
        r.carry(0, "priority=20");
        r.carry(2, "priority=21");
    } => Aged;
    "raised to another priority": raised, |r| r.carry(2, "priority=19") => Content;
    "raised without a trace of its priority": raised, |r| r.set([2], r#"headers={"a":"b"}"#) => Content;
    "buried, although workers handle it": unhandled,
        |r| r.carry(0, "kind=work") => Cause;
    "buried before it was due": unhandled,
        |r| r.trace[..2].iter_mut().for_each(|row| row.place = Place::Delayed) => Cause;
    "a secret in the payload of a letter": redacted,
        |r| r.set([4], r#"payload={"key":70,"secret":"secret-70"}"#) => Content;
    "an error that was lost with its secret": redacted,
        |r| r.carry(4, "error=[redacted]") => History;
    "an entry of the history with its secret": redacted,
        |r| r.set([4], &format!("history={}", history("failed").replace("no", "secret-1"))) => History;
    "erased without a request": erased, |r| drop(r.history.pop()) => Kept;
};
