//! Checks breakers: what opens and closes one, that one fenced probe runs at a time, and that no other job of its
//! kinds starts while it is open.

use std::collections::HashMap;

use crate::checker::job_history::JobHistory;
use crate::checker::{Findings, Leased, Rule, Run};
use crate::db_trace::BreakerRow;
use crate::history::{Operation, Phase};
use crate::role::gateway::{BREAKER_THRESHOLD, dependency_of};

/// Renewals after which a worker has certainly read the breakers. It reads them as often as it renews.
const READS: usize = 4;
/// The same where faults may have failed some of the reads.
const READS_WITH_FAULTS: usize = 10;

pub(super) fn check(run: &Run<'_>, findings: &mut Findings) {
    let mut jobs: Vec<&JobHistory> = run.jobs().collect();
    jobs.sort_by_key(|job| job.job);
    let claims = jobs.into_iter().flat_map(|job| run.leases_of(job));
    let claims: Vec<Leased<'_>> = claims.collect();
    for rows in breakers_of(run) {
        let mut before = None;
        // The rows from the one that granted the present probe.
        let mut grant = None;
        for (place, row) in rows.iter().enumerate() {
            let is_right = match row.process.starts_with("worker") {
                true => is_by_worker(before, grant, row, &claims),
                false => is_asked_for(row, run),
            };
            if !is_right {
                let text = format!("{} made {row:?} of {before:?}", row.process);
                findings.add(Rule::Breaker, None, row.at, text);
            }
            if is_grant(before, row) {
                grant = Some(&rows[place..]);
            }
            before = Some(row);
        }
        check_starts(rows, &claims, run, findings);
    }
}

/// Returns the rows of each breaker.
fn breakers_of<'a>(run: &'a Run<'_>) -> impl Iterator<Item = &'a [BreakerRow]> {
    let rows = &run.records.breakers;
    rows.chunk_by(|one, other| one.name == other.name)
}

/// Whether a breaker holds back the job of a claim.
fn concerns(row: &BreakerRow, claim: &Leased<'_>) -> bool {
    match row.name.strip_prefix("queue:") {
        Some(queue) => *queue == *claim.job.queue,
        None => row.kinds.iter().any(|held| **held == *claim.job.kind),
    }
}

/// Whether a worker got the right to probe.
fn is_grant(before: Option<&BreakerRow>, row: &BreakerRow) -> bool {
    row.probes > before.map_or(0, |before| before.probes)
}

/// Whether a client was asking for the change that it made.
fn is_asked_for(row: &BreakerRow, run: &Run<'_>) -> bool {
    let operation = match &*row.state {
        "closed" => Operation::CloseBreaker,
        _ => Operation::OpenBreaker,
    };
    run.calls.covers(&row.process, operation, row.at)
}

/// Whether a worker had a reason for the change that it made.
fn is_by_worker(
    before: Option<&BreakerRow>,
    grant: Option<&[BreakerRow]>,
    row: &BreakerRow,
    claims: &[Leased<'_>],
) -> bool {
    let was = before.map_or("closed", |before| &*before.state);
    match (was, &*row.state) {
        ("closed", "open") => row.outages >= i64::from(BREAKER_THRESHOLD),
        ("open" | "half_open", "half_open") if is_grant(before, row) => {
            let due = before.and_then(|before| before.probe_at);
            due.is_some_and(|due| due <= row.at)
        }
        // It adds the outages of jobs that ran already.
        ("open", "open") | ("half_open", "half_open") => true,
        ("half_open", is) => grant.is_some_and(|grant| {
            let is_own = grant[0].process == row.process;
            is_own && (is == "open" || !met_outage(grant, row, claims))
        }),
        _ => false,
    }
}

/// Whether a worker took the right to probe the job of a claim, between the claim and the start of the job. The first
/// row is that of the grant.
fn is_probe(rows: &[BreakerRow], claim: &Leased<'_>) -> bool {
    let grant = &rows[0];
    // Other jobs of the worker may wait until the breaker is closed, for a connection perhaps.
    let has_closed = |begin| {
        let mut before = rows.iter().take_while(|row| row.committed < begin);
        before.any(|row| *row.state == *"closed")
    };
    let begin = claim.attempt.map(|attempt| attempt.begin.at);
    *grant.state == *"half_open"
        && grant.process == claim.span.process
        && (claim.span.committed..=claim.span.to).contains(&grant.committed)
        && begin.is_none_or(|begin| grant.at <= begin && !has_closed(begin))
        && concerns(grant, claim)
}

/// Returns the row of the grant, if the job of a claim was a probe of this breaker.
fn grant_of<'a>(rows: &'a [BreakerRow], claim: &Leased<'_>) -> Option<&'a BreakerRow> {
    let place = (0..rows.len()).find(|&place| is_probe(&rows[place..], claim))?;
    Some(&rows[place])
}

/// Whether the handler of a probe met an outage. That of another dependency shows that this one works.
fn met_outage(grant: &[BreakerRow], row: &BreakerRow, claims: &[Leased<'_>]) -> bool {
    let probe = claims.iter().find(|claim| is_probe(grant, claim));
    let end = probe.and_then(|claim| claim.attempt?.end);
    end.is_some_and(|end| {
        let is_outage = end.at <= row.at && end.phase == Phase::Outage;
        is_outage && *dependency_of(end.error.as_deref()) == *row.name
    })
}

/// Checks that workers start no job that an open breaker holds back, except one per probe.
fn check_starts(
    rows: &[BreakerRow],
    claims: &[Leased<'_>],
    run: &Run<'_>,
    findings: &mut Findings,
) {
    let enough = match run.terms.is_calm {
        true => READS,
        false => READS_WITH_FAULTS,
    };
    let mut probes: HashMap<i64, i64> = HashMap::new();
    for claim in claims.iter().filter(|claim| concerns_any(rows, claim)) {
        let (job, from) = (claim.job.job, claim.span.from);
        // A worker without the right to probe returns the job that it has claimed for that.
        let (Some(worker), Some(attempt)) = (claim.span.worker, claim.attempt) else {
            continue;
        };
        // A job that several breakers hold back is the probe of one if no other job is left for that.
        let mut others = breakers_of(run).filter(|others| others[0].name != rows[0].name);
        if others.any(|rows| grant_of(rows, claim).is_some()) {
            continue;
        }
        if let Some(row) = grant_of(rows, claim) {
            if let Some(first) = probes.insert(row.probes, job) {
                let text = format!("probe {} started job {first} already", row.probes);
                findings.add(Rule::Breaker, job, from, text);
            }
            continue;
        }
        let start = attempt.begin.at;
        let Some(since) = held_since(rows, claim, start) else {
            continue;
        };
        if run.has_read(worker, since, start, enough) {
            let text = format!(
                "{} started it {} µs after the breaker {} had opened",
                claim.span.process,
                start - since,
                rows[0].name
            );
            findings.add(Rule::Breaker, job, start, text);
        }
    }
}

fn concerns_any(rows: &[BreakerRow], claim: &Leased<'_>) -> bool {
    rows.iter().any(|row| concerns(row, claim))
}

/// Returns since when the breaker has held back the job of a claim, at a time at which it does. A worker that loses
/// the right to a probe, because an operator opens the breaker again, must learn that first.
fn held_since(rows: &[BreakerRow], claim: &Leased<'_>, at: i64) -> Option<i64> {
    let known = rows.partition_point(|row| row.committed < at);
    let last = known.checked_sub(1)?;
    let is_lost_probe =
        |row: &BreakerRow| *row.state == *"half_open" && row.process == claim.span.process;
    let holding = rows[..known]
        .iter()
        .enumerate()
        .rev()
        .take_while(|(place, row)| {
            *row.state != *"closed"
                && concerns(row, claim)
                && (*place == last || !is_lost_probe(row))
        });
    holding.last().map(|(_, row)| row.committed)
}
