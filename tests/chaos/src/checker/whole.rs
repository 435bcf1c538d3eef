//! Rules about the run as a whole: final rows, clean stops, cancellations and counters.

use std::collections::{HashMap, HashSet};

use crate::checker::job_history::JobHistory;
use crate::checker::{Findings, Records, Rule};
use crate::db_trace::Place;
use crate::history::{ClientEvent, Operation};

pub(super) fn check(records: &Records, jobs: &HashMap<i64, JobHistory>, findings: &mut Findings) {
    check_final_rows(records, jobs, findings);
    check_stops(records, jobs, findings);
    check_cancellations(records, jobs, findings);
    check_suspects(findings);
    check_counters(records, jobs, findings);
}

/// Checks that the final rows are where the trace has them, and that no job is live.
fn check_final_rows(records: &Records, jobs: &HashMap<i64, JobHistory>, findings: &mut Findings) {
    let mut seen = HashSet::new();
    for row in records
        .final_rows
        .iter()
        .filter(|row| row.place != Place::Letter)
    {
        let job = jobs.get(&row.job);
        if !seen.insert(row.job) {
            findings.add(
                Rule::OnePlace,
                Some(row.job),
                0,
                "it is in two places at the end",
            );
        }
        findings.add(
            Rule::NotStuck,
            Some(row.job),
            0,
            format!("it is still {:?}", row.place),
        );
        if job.is_none_or(|job| job.end != Some(row.place)) {
            let text = format!(
                "it is {:?}, but {:?} in the trace",
                row.place,
                job.map(|job| job.end)
            );
            findings.add(Rule::OnePlace, Some(row.job), 0, text);
        }
    }
    let letters: HashSet<i64> = records
        .final_rows
        .iter()
        .filter(|row| row.place == Place::Letter)
        .map(|row| row.job)
        .collect();
    for job in jobs.values() {
        if job.is_letter != letters.contains(&job.job) {
            let text = if job.is_letter {
                "its letter is gone, but not in the trace"
            } else {
                "it has a letter, but not in the trace"
            };
            findings.add(Rule::OnePlace, Some(job.job), 0, text);
        }
        let is_live = job.end.is_some_and(|place| place != Place::Letter);
        if is_live && !seen.contains(&job.job) {
            let text = format!("it is gone, but {:?} in the trace", job.end);
            findings.add(Rule::Kept, Some(job.job), 0, text);
        }
    }
}

/// Checks that a worker that stopped cleanly holds no lease.
fn check_stops(records: &Records, jobs: &HashMap<i64, JobHistory>, findings: &mut Findings) {
    let stopped: HashMap<&str, i64> = records
        .history
        .iter()
        .filter(|line| matches!(line.event, ClientEvent::Exited { code: Some(0) }))
        .map(|line| (line.process.as_str(), line.at))
        .collect();
    for job in jobs.values() {
        for span in &job.leases {
            if let Some(&at) = stopped.get(&*span.process)
                && span.from < at
                && span.to > at
            {
                let text = format!("{} stopped cleanly, but held it", span.process);
                findings.add(Rule::CleanStop, Some(job.job), at, text);
            }
        }
    }
}

/// Checks that a client asked for every cancellation of a running job. Those of waiting jobs are changes that an
/// operation must explain.
fn check_cancellations(
    records: &Records,
    jobs: &HashMap<i64, JobHistory>,
    findings: &mut Findings,
) {
    let requested: HashSet<i64> = records
        .history
        .iter()
        .filter_map(|line| match &line.event {
            ClientEvent::Invoked {
                operation: Operation::Cancel,
                ids,
                ..
            } => Some(ids),
            _ => None,
        })
        .flatten()
        .copied()
        .collect();
    for job in jobs.values() {
        let is_explained = job.altered.iter().any(|one| one.to == Place::Letter);
        if let Some(at) = job
            .cancelled
            .filter(|_| !is_explained && !requested.contains(&job.job))
        {
            let text = "it died as cancelled, but no client cancelled it";
            findings.add(Rule::Cause, Some(job.job), at, text);
        }
    }
}

/// Checks that a job on its last chance is the only suspect in its process.
fn check_suspects(findings: &mut Findings) {
    let mut attempts = std::mem::take(&mut findings.suspects);
    attempts.sort_by_key(|attempt| attempt.begin);
    for (at, younger) in attempts.iter().enumerate() {
        let older = attempts[..at].iter().find(|older| {
            older.process == younger.process
                && older.end > younger.begin
                && (older.is_last_chance || younger.is_last_chance)
        });
        if let Some(older) = older {
            let process = &older.process;
            let text = format!("{process} ran another suspect beside one on its last chance");
            findings.add(Rule::SuspectsAlone, None, younger.begin, text);
        }
    }
}

/// Compares the published counters with the trace.
fn check_counters(records: &Records, jobs: &HashMap<i64, JobHistory>, findings: &mut Findings) {
    for drift in &records.drift {
        findings.add(Rule::Counters, None, 0, drift.clone());
    }
    if records.counters.is_empty() {
        return;
    }
    let totals = findings.totals.clone();
    let enqueued = i64::try_from(jobs.values().filter(|job| job.enqueuer.is_some()).count())
        .unwrap_or(i64::MAX);
    for (name, expected) in [
        ("redrive_jobs_enqueued_total", enqueued),
        ("redrive_jobs_claimed_total", totals.claims),
        ("redrive_jobs_succeeded_total", totals.done),
        ("redrive_jobs_dead_lettered_total", totals.deaths),
        ("redrive_dlq_redriven_total", totals.redriven),
    ] {
        let published = records.counters.get(name).copied().unwrap_or_default();
        if published != expected {
            let text = format!("{name} is {published}, but should be {expected}");
            findings.add(Rule::Counters, None, 0, text);
        }
    }
}
