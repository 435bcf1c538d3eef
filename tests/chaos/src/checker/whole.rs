//! Rules about the run as a whole: the ends of jobs, clean stops, cancellations, suspects and counters.

use std::collections::{HashMap, HashSet};

use crate::checker::job_history::{ClientChange, LeaseSpan};
use crate::checker::{Findings, MAX_CRASHES, Rule, Run};
use crate::history::{ClientEvent, HandlerEvent, Operation};

pub(super) fn check(run: &Run<'_>, findings: &mut Findings) {
    check_ends(run, findings);
    check_stops(run, findings);
    check_cancellations(run, findings);
    check_suspects(run, findings);
    for what in &run.records.leftovers {
        findings.add(Rule::Leftover, None, 0, what.clone());
    }
    for what in &run.records.wrong_statements {
        findings.add(Rule::ValidSql, None, 0, what.clone());
    }
    check_counters(run, findings);
}

/// Checks that no job is live. One that is live only in the trace was lost, as by a compaction.
fn check_ends(run: &Run<'_>, findings: &mut Findings) {
    for job in run.jobs() {
        if let Some(place) = job.end {
            let text = format!("it is still {place:?}");
            findings.add(Rule::NotStuck, job.job, 0, text);
        }
    }
}

/// Checks that a worker that stopped cleanly holds no lease.
fn check_stops(run: &Run<'_>, findings: &mut Findings) {
    let lines = run.records.history.iter();
    let stopped: HashMap<&str, i64> = lines
        .filter(|line| matches!(line.event, ClientEvent::Exited { code: Some(0) }))
        .map(|line| (line.process.as_str(), line.at))
        .collect();
    for job in run.jobs() {
        for span in &job.leases {
            if let Some(&at) = stopped.get(&*span.process)
                && span.from < at
                && span.to > at
            {
                let text = format!("{} stopped cleanly, but held it", span.process);
                findings.add_lack(Rule::CleanStop, job.job, at, text);
            }
        }
    }
}

/// Checks that a client asked for every cancellation of a running job. Those of waiting jobs are changes that an
/// operation must explain.
fn check_cancellations(run: &Run<'_>, findings: &mut Findings) {
    let calls = run.calls.all.iter();
    let asked = calls.filter(|call| call.operation == Operation::Cancel);
    let asked: HashSet<i64> = asked.flat_map(|call| call.ids).copied().collect();
    for job in run.jobs() {
        let mut changes = job.by_clients.iter();
        let is_explained = changes.any(|(change, ..)| *change == ClientChange::Cancelled);
        if let Some(at) = job.cancelled
            && !is_explained
            && !asked.contains(&job.job)
        {
            let text = "it died as cancelled, but no client cancelled it";
            findings.add(Rule::Cause, job.job, at, text);
        }
    }
}

/// Checks that a job on its last chance is the only suspect in its process.
fn check_suspects(run: &Run<'_>, findings: &mut Findings) {
    let leased = run.attempts().filter_map(|attempt| {
        let span = run.lease_of(attempt)?;
        // An attempt that kills its process has no end.
        let until = attempt.end.map_or(span.to, |end| end.at);
        Some((attempt.begin, until, span))
    });
    let mut suspects: Vec<_> = leased.filter(|(.., span)| span.crashes > 0).collect();
    suspects.sort_by_key(|(begin, ..)| begin.at);
    let place = |begin: &HandlerEvent| (begin.process.clone(), run.jobs[&begin.job].queue.clone());
    let is_last_chance = |span: &LeaseSpan| span.crashes + 1 >= MAX_CRASHES;
    for (at, (begin, _, span)) in suspects.iter().enumerate() {
        let is_beside = suspects[..at].iter().any(|(older, until, of)| {
            *until > begin.at
                && (is_last_chance(of) || is_last_chance(span))
                && place(older) == place(begin)
        });
        if is_beside {
            let (process, queue) = place(begin);
            let text =
                format!("{process} of {queue} ran another suspect beside one on its last chance");
            findings.add(Rule::SuspectsAlone, None, begin.at, text);
        }
    }
}

/// Compares the published counters with the trace.
fn check_counters(run: &Run<'_>, findings: &mut Findings) {
    for drift in &run.records.drift {
        findings.add(Rule::Counters, None, 0, drift.clone());
    }
    if run.records.counters.is_empty() {
        return;
    }
    let enqueued = run.jobs().filter(|job| job.enqueuer.is_some()).count();
    for (name, expected) in [
        (
            "redrive_jobs_enqueued_total",
            i64::try_from(enqueued).unwrap_or(i64::MAX),
        ),
        ("redrive_jobs_claimed_total", findings.times("claims")),
        ("redrive_jobs_succeeded_total", findings.times("done")),
        ("redrive_jobs_dead_lettered_total", findings.times("deaths")),
        ("redrive_dlq_redriven_total", findings.times("redriven")),
    ] {
        let published = run.records.counters.get(name).copied().unwrap_or_default();
        if published != expected {
            let text = format!("{name} is {published}, but should be {expected}");
            findings.add(Rule::Counters, None, 0, text);
        }
    }
}
