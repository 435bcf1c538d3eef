//! Compares the answers that clients got with the trace.

use std::collections::HashMap;

use crate::checker::job_history::JobHistory;
use crate::checker::{Findings, Records, Rule};
use crate::history::{ClientEvent, Operation};

/// An operation of a client, with its result.
struct Call<'a> {
    process: &'a str,
    operation: Operation,
    at: i64,
    keys: &'a [i64],
    result: Option<(i64, &'a ClientEvent)>,
}

pub(super) fn check(records: &Records, jobs: &HashMap<i64, JobHistory>, findings: &mut Findings) {
    let calls = calls(records);
    let mut by_key: HashMap<i64, &JobHistory> = HashMap::new();
    for job in jobs.values() {
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
        if job
            .key
            .is_some_and(|key| callers.get(&key).copied() != enqueuer)
        {
            let text = format!("{enqueuer:?} stored it without an enqueue");
            findings.add(Rule::NotInvented, Some(job.job), 0, text);
        }
    }
    for call in &calls {
        match call.operation {
            Operation::Enqueue => check_enqueue(call, records, jobs, &by_key, findings),
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
                operation, keys, ..
            } => {
                open.insert((&line.process, line.op), calls.len());
                calls.push(Call {
                    process: &line.process,
                    operation: *operation,
                    at: line.at,
                    keys,
                    result: None,
                });
            }
            ClientEvent::Ok { .. } | ClientEvent::Failed { .. } | ClientEvent::Unknown { .. } => {
                if let Some(at) = open.get(&(line.process.as_str(), line.op)) {
                    calls[*at].result.get_or_insert((line.at, &line.event));
                }
            }
            ClientEvent::Started { .. }
            | ClientEvent::Exited { .. }
            | ClientEvent::Fault { .. } => {}
        }
    }
    calls
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
            let is_existing = |id: &i64| *id < 0;
            for (id, key) in ids.iter().zip(call.keys) {
                if is_existing(id) {
                    check_existing(-id, call, at, records, jobs, findings);
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
    let was_live = jobs.get(&id).is_some_and(|job| {
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
