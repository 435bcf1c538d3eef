//! Compares the answers that clients got with the trace.

use std::collections::HashMap;
use std::sync::Arc;

use crate::checker::job_history::{JobHistory, LeaseSpan};
use crate::checker::requests::Requests;
use crate::checker::{Findings, Path, Records, Rule};
use crate::history::{ClientEvent, JobSelection, Operation};
use crate::role::standing::TICK_KEY;

mod alterations;
mod replacements;

use replacements::window_ends;

/// The maximum number of jobs that one INSERT stores; more are stored by COPY.
const MAX_INSERT: usize = 1000;

/// An operation of a client, with its result.
struct Call<'a> {
    process: &'a str,
    operation: Operation,
    at: i64,
    keys: &'a [i64],
    ids: &'a [i64],
    selection: Option<&'a JobSelection>,
    result: Option<(i64, &'a ClientEvent)>,
}

pub(super) fn check(records: &Records, jobs: &HashMap<i64, JobHistory>, findings: &mut Findings) {
    let calls = calls(records);
    let mut by_key: HashMap<i64, &JobHistory> = HashMap::new();
    for job in jobs.values() {
        if job.position.is_some() || job.key == Some(TICK_KEY) {
            continue;
        }
        let Some(key) = job.key else {
            findings.add(Rule::NotInvented, Some(job.job), 0, "it has no key");
            continue;
        };
        if let Some(twin) = by_key.insert(key, job) {
            let text = format!("the same enqueue stored job {}", twin.job);
            findings.add(Rule::NotInvented, Some(job.job), 0, text);
        }
    }
    let callers: HashMap<i64, &str> = calls
        .iter()
        .flat_map(|call| call.keys.iter().map(|key| (*key, call.process)))
        .collect();
    for job in jobs.values() {
        let enqueuer = job.enqueuer.as_deref();
        // Workers store follow-ups, whose keys are negative, and the jobs of the schedule.
        if job
            .key
            .is_some_and(|key| key > 0 && callers.get(&key).copied() != enqueuer)
        {
            let text = format!("{enqueuer:?} stored it without an enqueue");
            findings.add(Rule::NotInvented, Some(job.job), 0, text);
        }
    }
    findings.paths.take_all(calls.iter().filter_map(path_of));
    findings.paths.take_all(redriven_by_runs(&calls, jobs));
    check_changes(&Requests::of(records), jobs, findings);
    alterations::check(&calls, records, jobs, findings);
    replacements::check_windows(jobs, findings);
    for call in &calls {
        match call.operation {
            Operation::Enqueue | Operation::Replace | Operation::EnqueueInWindow => {
                check_enqueue(call, records, jobs, &by_key, findings);
            }
            Operation::Cancel => check_cancel(call, records, jobs, findings),
            Operation::Redrive => check_redrive(call, records, jobs, findings),
            _ => {}
        }
    }
}

fn calls(records: &Records) -> Vec<Call<'_>> {
    let mut open: HashMap<(&str, u64), usize> = HashMap::new();
    let mut calls: Vec<Call<'_>> = Vec::new();
    for line in &records.history {
        match &line.event {
            ClientEvent::Invoked {
                operation,
                keys,
                ids,
            } => {
                open.insert((&line.process, line.op), calls.len());
                calls.push(Call {
                    process: &line.process,
                    operation: *operation,
                    at: line.at,
                    keys,
                    ids,
                    selection: None,
                    result: None,
                });
            }
            ClientEvent::Selects(selection) => {
                if let Some(at) = open.get(&(line.process.as_str(), line.op)) {
                    calls[*at].selection = Some(selection);
                }
            }
            ClientEvent::Ok { .. } | ClientEvent::Failed { .. } | ClientEvent::Unknown { .. } => {
                if let Some(at) = open.get(&(line.process.as_str(), line.op)) {
                    calls[*at].result.get_or_insert((line.at, &line.event));
                }
            }
            ClientEvent::Validated { .. }
            | ClientEvent::Started { .. }
            | ClientEvent::Exited { .. }
            | ClientEvent::Fault { .. } => {}
        }
    }
    calls
}

/// Checks that a client asked for every edit and delivery of a letter.
fn check_changes(requests: &Requests, jobs: &HashMap<i64, JobHistory>, findings: &mut Findings) {
    for job in jobs.values() {
        for (operations, changes) in [
            (&[Operation::Edit, Operation::Undo][..], &job.edited),
            (&[Operation::Deliver], &job.delivered),
        ] {
            for (at, by) in changes {
                let mut asked = operations.iter();
                if !asked.any(|operation| requests.covers(by, *operation, *at)) {
                    let text = format!("{by} changed it without the operations {operations:?}");
                    findings.add(Rule::Content, Some(job.job), *at, text);
                }
            }
        }
    }
}

/// Returns the path of a call that changed something.
fn path_of(call: &Call<'_>) -> Option<Path> {
    let Some((_, ClientEvent::Ok { ids })) = call.result else {
        return None;
    };
    let path = match call.operation {
        Operation::Enqueue if ids.len() > MAX_INSERT => Path::EnqueuedByCopy,
        Operation::Priority => Path::PriorityChanged,
        Operation::Reopen => Path::Reopened,
        Operation::Discard => Path::Discarded,
        Operation::Edit => Path::Edited,
        Operation::Prune => Path::Pruned,
        Operation::Pause => Path::Paused,
        Operation::Resume => Path::Resumed,
        Operation::OpenBreaker => Path::BreakerOpened,
        Operation::Release => Path::GroupReleased,
        Operation::Undo => Path::Undone,
        Operation::Enqueue
        | Operation::Redrive
        | Operation::Cancel
        | Operation::ChangeJobs
        | Operation::Run
        | Operation::Capture
        | Operation::Deliver
        | Operation::Replace
        | Operation::EnqueueInWindow
        | Operation::Trigger
        | Operation::PauseSchedule
        | Operation::CloseBreaker
        | Operation::Retention
        | Operation::Restore
        | Operation::DeleteArchived
        | Operation::Erase => {
            return None;
        }
    };
    (!ids.is_empty()).then_some(path)
}

/// Returns a path for each redrive during a run of its process.
fn redriven_by_runs(calls: &[Call<'_>], jobs: &HashMap<i64, JobHistory>) -> Vec<Path> {
    let mut runs: HashMap<&str, Vec<(i64, i64)>> = HashMap::new();
    for call in calls.iter().filter(|call| call.operation == Operation::Run) {
        let until = call.result.map_or(i64::MAX, |(at, _)| at);
        runs.entry(call.process).or_default().push((call.at, until));
    }
    let is_by_run = |(at, by): &&(i64, Arc<str>)| {
        let spans = runs.get(&**by).map_or(&[][..], Vec::as_slice);
        spans.iter().any(|(from, to)| (from..=to).contains(&at))
    };
    let redriven = jobs.values().flat_map(|job| &job.redriven);
    redriven
        .filter(is_by_run)
        .map(|_| Path::RedrivenByRun)
        .collect()
}

/// Checks that acknowledged jobs are stored and failed ones are not.
fn check_enqueue(
    call: &Call<'_>,
    records: &Records,
    jobs: &HashMap<i64, JobHistory>,
    by_key: &HashMap<i64, &JobHistory>,
    findings: &mut Findings,
) {
    match call.result {
        Some((at, ClientEvent::Ok { ids })) => {
            if let [holder, replaced] = ids[..]
                && call.operation == Operation::Replace
                && holder == -replaced
            {
                replacements::check(call, replaced, at, records, jobs, findings);
            }
            let is_existing = |id: &i64| *id < 0;
            for (id, key) in ids.iter().zip(call.keys) {
                if is_existing(id) {
                    findings.paths.take(Path::KeyHeld);
                    check_existing(-id, call, at, records, jobs, findings);
                    if let Some(job) = by_key.get(key) {
                        let text =
                            format!("{} was told that job {} holds its key", call.process, -id);
                        findings.add(Rule::Honest, Some(job.job), at, text);
                    }
                    continue;
                }
                let stored = jobs.get(id).filter(|job| job.key == Some(*key));
                match stored {
                    Some(_) => {}
                    None if records.terms.may_be_lost(at) => findings.totals.lost_in_failover += 1,
                    None => {
                        let text = format!(
                            "{} got it acknowledged at {at}, but it was never stored",
                            call.process
                        );
                        findings.add(Rule::Honest, Some(*id), at, text);
                    }
                }
            }
        }
        Some((at, ClientEvent::Failed { error })) => {
            for job in call.keys.iter().filter_map(|key| by_key.get(key)) {
                let text = format!(
                    "its enqueue by {} failed ({error}), but it is stored",
                    call.process
                );
                findings.add(Rule::Honest, Some(job.job), at, text);
            }
        }
        _ => {
            findings.totals.unknown += 1;
            findings.totals.unknown_stored +=
                i64::from(call.keys.iter().any(|key| by_key.contains_key(key)));
        }
    }
}

/// Checks that a job that was reported to hold the key was live during the call.
fn check_existing(
    id: i64,
    call: &Call<'_>,
    at: i64,
    records: &Records,
    jobs: &HashMap<i64, JobHistory>,
    findings: &mut Findings,
) {
    let is_in_window = jobs.get(&id).is_some_and(|job| {
        call.operation == Operation::EnqueueInWindow && window_ends(job) >= call.at
    });
    let was_live = is_in_window
        || jobs.get(&id).is_some_and(|job| {
            job.keys
                .iter()
                .any(|span| span.from.1 <= at && span.visible_to >= call.at)
        });
    if !was_live && !records.terms.may_be_lost(at) {
        let text = format!(
            "{} got it as the holder of the key, but it was not live",
            call.process
        );
        findings.add(Rule::OneOfAKey, Some(id), at, text);
    }
}

/// Checks that a job that was cancelled while it ran is not attempted again. Its history has that job's id
/// as a negative number.
fn check_cancel(
    call: &Call<'_>,
    records: &Records,
    jobs: &HashMap<i64, JobHistory>,
    findings: &mut Findings,
) {
    let Some((at, ClientEvent::Ok { ids })) = call.result else {
        return;
    };
    let asked = ids.iter().filter(|id| **id < 0);
    for job in asked.filter_map(|id| jobs.get(&-id)) {
        let mut leases = job.leases.iter();
        let cancelled = leases.rfind(|span| span.from <= at && span.to >= call.at);
        let generation = cancelled.map(|span| span.generation);
        let is_later = |span: &&LeaseSpan| span.from > at && Some(span.generation) == generation;
        if let Some(again) = job.leases.iter().find(is_later)
            && !records.terms.claim_may_be_lost(at)
        {
            let text = format!("{} cancelled it, but it was claimed again", call.process);
            findings.add(Rule::Cancelled, Some(job.job), again.from, text);
        }
    }
}

/// Checks that the client itself redrove the letters in its answer.
fn check_redrive(
    call: &Call<'_>,
    records: &Records,
    jobs: &HashMap<i64, JobHistory>,
    findings: &mut Findings,
) {
    let Some((at, ClientEvent::Ok { ids })) = call.result else {
        return;
    };
    for id in ids {
        let was_redriven = jobs.get(id).is_some_and(|job| {
            let mut redriven = job.redriven.iter();
            redriven.any(|(time, by)| (call.at..=at).contains(time) && **by == *call.process)
        });
        if !was_redriven && !records.terms.may_be_lost(at) {
            let text = format!(
                "{} got it as redriven, but did not redrive it",
                call.process
            );
            findings.add(Rule::RedriveOnce, Some(*id), at, text);
        }
    }
}
