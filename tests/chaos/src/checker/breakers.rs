//! Checks breakers: what opens and closes one, that one fenced probe runs at a time, and that no other job of its
//! kinds starts while it is open.

mod starts;

use crate::checker::job_history::JobHistory;
use crate::checker::{Findings, Leased, Rule, Run};
use crate::db_trace::BreakerRow;
use crate::history::{Operation, Phase};
use crate::role::gateway::{BREAKER_THRESHOLD, dependency_of};

pub(super) fn check(run: &Run<'_>, findings: &mut Findings) {
    let mut jobs: Vec<&JobHistory> = run.jobs().collect();
    jobs.sort_by_key(|job| job.job);
    let claims = jobs.into_iter().flat_map(|job| run.leases_of(job));
    let claims: Vec<Leased<'_>> = claims.collect();
    for rows in run
        .records
        .breakers
        .chunk_by(|one, other| one.name == other.name)
    {
        let mut before = None;
        // The row that granted the present probe.
        let mut grant = None;
        for row in rows {
            let is_right = match row.process.starts_with("worker") {
                true => is_by_worker(before, grant, row, &claims),
                false => is_asked_for(row, run),
            };
            if !is_right {
                let text = format!("{} made {row:?} of {before:?}", row.process);
                findings.add(Rule::Breaker, None, row.at, text);
            }
            if is_grant(before, row) {
                grant = Some(row);
            }
            before = Some(row);
        }
        starts::check(rows, &claims, run, findings);
    }
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
    grant: Option<&BreakerRow>,
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
            let is_own = grant.process == row.process;
            is_own && (is == "open" || !met_outage(grant, row, claims))
        }),
        _ => false,
    }
}

/// Whether the handler of a probe met an outage. That of another dependency shows that this one works.
fn met_outage(grant: &BreakerRow, row: &BreakerRow, claims: &[Leased<'_>]) -> bool {
    let probe = claims.iter().find(|claim| {
        claim.span.worker == grant.prober
            && (grant.at..=row.at).contains(&claim.span.from)
            && concerns(grant, claim)
    });
    let end = probe.and_then(|claim| claim.attempt?.end);
    end.is_some_and(|end| {
        let is_outage = end.at <= row.at && end.phase == Phase::Outage;
        is_outage && *dependency_of(end.error.as_deref()) == *row.name
    })
}
