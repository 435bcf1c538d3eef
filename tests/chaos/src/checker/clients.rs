//! Compares the answers that clients got with the trace: what they enqueued, replaced, cancelled and redrove, and who
//! asked for what happened.

use std::collections::HashMap;

use super::requests::Call;
use super::{Findings, Rule, Run, grouped};
use crate::checker::job_history::{ClientChange, JobHistory, LeaseSpan};
use crate::clock::micros;
use crate::history::{ClientEvent, Operation};
use crate::role::standing::TICK_KEY;
use crate::role::{WINDOW, follow_up_key};

type ByKey<'a> = HashMap<i64, &'a JobHistory>;

pub(super) fn check(run: &Run<'_>, findings: &mut Findings) {
    let calls = &run.calls.all;
    for call in calls.iter().filter(|call| call.answer().is_some()) {
        findings.count(format!("{:?}", call.operation));
    }
    let by_key = check_origins(calls, run, findings);
    check_changes(run, findings);
    check_keys(run, findings);
    check_windows(run, findings);
    check_follow_ups(run, findings);
    for call in calls {
        match call.operation {
            Operation::Enqueue | Operation::Replace | Operation::EnqueueInWindow => {
                check_enqueue(call, run, &by_key, findings);
            }
            Operation::Cancel => check_cancel(call, run, findings),
            _ => {}
        }
    }
    check_redrives(run, findings);
}

/// Checks that each job comes from one enqueue of its process. Returns the jobs by their keys.
fn check_origins<'a>(calls: &[Call<'_>], run: &'a Run<'_>, findings: &mut Findings) -> ByKey<'a> {
    let keys = calls
        .iter()
        .flat_map(|call| call.keys.iter().map(|key| (*key, call.process)));
    let callers: HashMap<i64, &str> = keys.collect();
    let mut by_key: ByKey<'_> = HashMap::new();
    for job in run.jobs() {
        if job.key == Some(TICK_KEY) {
            continue;
        }
        let Some(key) = job.key else {
            findings.add(Rule::NotInvented, job.job, 0, "it has no key");
            continue;
        };
        if let Some(twin) = by_key.insert(key, job) {
            let text = format!("the same enqueue stored job {}", twin.job);
            findings.add(Rule::NotInvented, job.job, 0, text);
        }
        // Workers store follow-ups, whose keys are negative.
        let enqueuer = job.enqueuer.as_deref();
        if key > 0 && callers.get(&key).copied() != enqueuer {
            let text = format!("{enqueuer:?} stored it without an enqueue");
            findings.add(Rule::NotInvented, job.job, 0, text);
        }
    }
    by_key
}

/// Checks that a client was asking for every change that only clients make.
fn check_changes(run: &Run<'_>, findings: &mut Findings) {
    use Operation::{
        Cancel, ChangeJobs, Deliver, Discard, Edit, Erase, Priority, Prune, Reopen, Replace,
        Retention, Undo,
    };
    for job in run.jobs() {
        for (change, at, by) in &job.by_clients {
            let (operations, rule): (&[Operation], Rule) = match change {
                ClientChange::Altered => (&[ChangeJobs, Priority, Replace], Rule::Content),
                ClientChange::Cancelled => (&[Cancel, ChangeJobs], Rule::Cause),
                ClientChange::Erased => (&[Erase], Rule::Kept),
                ClientChange::Edited => (&[Edit, Undo], Rule::Content),
                ClientChange::Delivered => (&[Deliver], Rule::Content),
                ClientChange::Discarded => (&[Discard], Rule::Lineage),
                ClientChange::Reopened => (&[Reopen], Rule::Lineage),
                ClientChange::Pruned => (&[Prune, Retention, Erase], Rule::Retention),
                ClientChange::Purged => (&[Erase], Rule::Retention),
            };
            let mut asked = operations.iter();
            if !asked.any(|operation| run.calls.covers(by, *operation, *at)) {
                let text = format!("{change:?} by {by} without the operations {operations:?}");
                findings.add(rule, job.job, *at, text);
            }
        }
    }
}

/// Checks that at most one live job holds a unique key at any moment.
fn check_keys(run: &Run<'_>, findings: &mut Findings) {
    let spans = run.jobs().flat_map(|job| {
        let spans = job.keys.iter();
        spans.map(|span| (&*span.key, (span.from, span.to.0, job.job)))
    });
    for (key, mut spans) in grouped(spans) {
        spans.sort_unstable();
        for pair in spans.windows(2) {
            let ((_, until, first), (from, _, second)) = (pair[0], pair[1]);
            if from.0 < until {
                let text = format!("it holds the key {key}, and so does the live job {first}");
                findings.add(Rule::OneOfAKey, second, from.1, text);
            }
        }
    }
}

/// Checks that the jobs of a key with a window were stored at least one window apart.
fn check_windows(run: &Run<'_>, findings: &mut Findings) {
    let with_keys = run
        .jobs()
        .filter_map(|job| Some((&*job.keys.first()?.key, job)));
    let with_windows = with_keys.filter(|(key, _)| key.starts_with('w'));
    for (key, mut stored) in grouped(with_windows) {
        stored.sort_by_key(|job| job.enqueued);
        for pair in stored.windows(2) {
            let (apart, at) = (pair[1].enqueued.1 - pair[0].enqueued.0, pair[1].enqueued.1);
            if apart < micros(WINDOW) {
                let first = pair[0].job;
                let text = format!(
                    "the window of {key} was open for another {apart} µs, after job {first}"
                );
                findings.add(Rule::UniqueModes, pair[1].job, at, text);
            }
        }
    }
}

/// Checks that a success stores its follow-ups once, in its transaction, and that nothing else does.
fn check_follow_ups(run: &Run<'_>, findings: &mut Findings) {
    let keyed = run.jobs().filter_map(|job| Some((job.key?, job)));
    let mut stored = grouped(keyed.filter(|(key, _)| *key < 0));
    for job in run.jobs().filter(|job| job.follow_ups > 0) {
        for (generation, tx) in &job.done {
            let key = job.key.map(|key| follow_up_key(key, *generation));
            let children = key.and_then(|key| stored.remove(&key)).unwrap_or_default();
            if children.len() != 1 || children[0].stored_by != *tx {
                let count = children.len();
                let text = format!(
                    "generation {generation} has {count} follow-ups, or not in its transaction"
                );
                findings.add(Rule::FollowUp, job.job, 0, text);
            }
        }
    }
    for child in stored.into_values().flatten() {
        findings.add(
            Rule::FollowUp,
            child.job,
            0,
            "it is a follow-up of no success",
        );
    }
}

/// Checks that acknowledged jobs are stored and failed ones are not.
fn check_enqueue(call: &Call<'_>, run: &Run<'_>, by_key: &ByKey<'_>, findings: &mut Findings) {
    let process = call.process;
    match call.result {
        Some((at, ClientEvent::Ok { ids })) => {
            if let (Operation::Replace, [holder, replaced]) = (call.operation, &ids[..])
                && *holder == -replaced
            {
                check_replaced(call, *replaced, at, run, findings);
            }
            for (id, key) in ids.iter().zip(call.keys) {
                let stored = by_key.get(key);
                // A negative id is that of the job that holds the key.
                if *id < 0 {
                    check_existing(-id, call, at, run, findings);
                    if let Some(job) = stored {
                        let text = format!("{process} was told that job {} holds its key", -id);
                        findings.add(Rule::Honest, job.job, at, text);
                    }
                } else if run.jobs.get(id).is_none_or(|job| job.key != Some(*key)) {
                    let text = format!("{process} got it acknowledged, but it was never stored");
                    findings.add_lack(Rule::Honest, *id, at, text);
                }
            }
        }
        Some((at, ClientEvent::Failed { error })) => {
            for job in call.keys.iter().filter_map(|key| by_key.get(key)) {
                let text = format!("its enqueue by {process} failed ({error}), but it is stored");
                findings.add(Rule::Honest, job.job, at, text);
            }
        }
        _ => {
            findings.count("calls without an answer");
            if call.keys.iter().any(|key| by_key.contains_key(key)) {
                findings.count("calls without an answer that took effect");
            }
        }
    }
}

/// Checks that the client itself replaced the job in its answer.
fn check_replaced(call: &Call<'_>, id: i64, at: i64, run: &Run<'_>, findings: &mut Findings) {
    let was_replaced = run.jobs.get(&id).is_some_and(|job| {
        let mut changes = job.by_clients.iter();
        changes.any(|(change, done, by)| {
            let is_own = (call.at..=at).contains(done) && **by == *call.process;
            is_own && *change == ClientChange::Altered
        })
    });
    if !was_replaced {
        let text = format!(
            "{} got it as replaced, but did not replace it",
            call.process
        );
        findings.add_lack(Rule::UniqueModes, id, at, text);
    }
}

/// Checks that a job that was reported to hold the key was live during the call, or its window was open.
fn check_existing(id: i64, call: &Call<'_>, at: i64, run: &Run<'_>, findings: &mut Findings) {
    let held = run.jobs.get(&id).is_some_and(|job| {
        // The commit of its enqueue may have been slow.
        let in_window = call.operation == Operation::EnqueueInWindow
            && job.enqueued.1 + micros(WINDOW) >= call.at;
        let mut keys = job.keys.iter();
        in_window || keys.any(|span| span.from.1 <= at && span.visible_to >= call.at)
    });
    if !held {
        let text = format!(
            "{} got it as the holder of the key, but it was not live",
            call.process
        );
        findings.add_lack(Rule::OneOfAKey, id, at, text);
    }
}

/// Checks that a job that was cancelled while it ran is not attempted again. Its history has that job's id
/// as a negative number.
fn check_cancel(call: &Call<'_>, run: &Run<'_>, findings: &mut Findings) {
    let Some((at, ids)) = call.answer() else {
        return;
    };
    let asked = ids.iter().filter(|id| **id < 0);
    for job in asked.filter_map(|id| run.jobs.get(&-id)) {
        let mut leases = job.leases.iter();
        let cancelled = leases.rfind(|span| span.from <= at && span.to >= call.at);
        let generation = cancelled.map(|span| span.generation);
        let is_later = |span: &LeaseSpan| span.from > at && Some(span.generation) == generation;
        if job.leases.iter().any(is_later) {
            let text = format!("{} cancelled it, but it was claimed again", call.process);
            findings.add_lack(Rule::Cancelled, job.job, at, text);
        }
    }
}

/// Checks that the client itself redrove the letters in its answer.
fn check_redrives(run: &Run<'_>, findings: &mut Findings) {
    let was_redriven = |call: &Call<'_>, id: i64| {
        run.jobs.get(&id).is_some_and(|job| {
            let mut redriven = job.redriven.iter();
            redriven.any(|(at, by)| call.covers(*at) && **by == *call.process)
        })
    };
    let what = "got it as redriven, but did not redrive it";
    let demanded = (Operation::Redrive, Rule::RedriveOnce, what);
    run.check_answers(demanded, was_redriven, findings);
}
