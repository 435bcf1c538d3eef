//! Checks breakers: what opens and closes one, that one fenced probe runs at a time, and that no other job of its
//! kinds starts while it is open.

mod change;
mod starts;

use crate::checker::job_history::JobHistory;
use crate::checker::requests::Calls;
use crate::checker::{Findings, Leased, Rule, Run};
use crate::db_trace::BreakerRow;
use crate::history::{HandlerEvent, Operation, Phase};
use crate::role::gateway::dependency_of;

use change::BreakerChange;

pub(super) fn check(run: &Run<'_>, findings: &mut Findings) {
    let (records, calls) = (run.records, &run.calls);
    let mut jobs: Vec<&JobHistory> = run.jobs().collect();
    jobs.sort_by_key(|job| job.job);
    let claims = jobs.into_iter().flat_map(|job| run.leases_of(job));
    let claims: Vec<Leased<'_>> = claims.collect();
    for rows in records
        .breakers
        .chunk_by(|one, other| one.name == other.name)
    {
        let mut before = None;
        // The row that granted the present probe.
        let mut grant: Option<&BreakerRow> = None;
        for row in rows {
            let change = BreakerChange::of(before, row);
            check_change(before, row, change, calls, findings);
            match change {
                Some(BreakerChange::Granted) => grant = Some(row),
                Some(
                    BreakerChange::Closed | BreakerChange::Reopened | BreakerChange::GivenBack,
                ) => {
                    if let Some(grant) = grant {
                        check_verdict(grant, row, change, &claims, findings);
                    }
                }
                _ => {}
            }
            before = Some(row);
        }
        starts::check(rows, &claims, records, findings);
    }
}

/// Whether a breaker holds back the job of a claim.
fn concerns(row: &BreakerRow, claim: &Leased<'_>) -> bool {
    match row.name.strip_prefix("queue:") {
        Some(queue) => *queue == *claim.job.queue,
        None => row.kinds.iter().any(|held| **held == *claim.job.kind),
    }
}

/// Checks that a change is one that redrive makes, and that the right process made it.
fn check_change(
    before: Option<&BreakerRow>,
    row: &BreakerRow,
    change: Option<BreakerChange>,
    calls: &Calls<'_>,
    findings: &mut Findings,
) {
    let is_worker = row.process.starts_with("worker");
    let asked = |operation| calls.covers(&row.process, operation, row.at);
    let is_right = match change {
        Some(BreakerChange::OpenedByHand) => asked(Operation::OpenBreaker),
        Some(BreakerChange::ClosedByHand) => asked(Operation::CloseBreaker),
        Some(_) => is_worker,
        None => false,
    };
    if !is_right {
        let text = format!("{} made {row:?} of {before:?}", row.process);
        findings.add(Rule::Breaker, None, row.at, text);
    }
}

/// Checks that the end of a probe is what its job found.
fn check_verdict(
    grant: &BreakerRow,
    row: &BreakerRow,
    change: Option<BreakerChange>,
    claims: &[Leased<'_>],
    findings: &mut Findings,
) {
    if grant.process != row.process {
        let text = format!("{} ended the probe of {}", row.process, grant.process);
        findings.add(Rule::Breaker, None, row.at, text);
    }
    let probe = claims.iter().find(|claim| {
        claim.span.worker == grant.prober
            && (grant.at..=row.at).contains(&claim.span.from)
            && concerns(grant, claim)
    });
    let end = probe
        .and_then(|claim| claim.attempt?.end)
        .filter(|end| end.at <= row.at);
    // An outage of another dependency shows that this one works.
    let is_outage = |end: &HandlerEvent| {
        end.phase == Phase::Outage && *dependency_of(end.error.as_deref()) == *row.name
    };
    let is_right = match (change, end) {
        (Some(BreakerChange::Closed), Some(end)) => !is_outage(end),
        (Some(BreakerChange::Reopened), Some(end)) => is_outage(end),
        (Some(BreakerChange::GivenBack), None) => true,
        // A handler may end without a line in its log, by a panic of another job or a lost transaction.
        (Some(BreakerChange::Closed), None) => probe.is_some_and(|claim| claim.attempt.is_some()),
        _ => false,
    };
    if !is_right {
        let job = probe.map(|claim| claim.job.job);
        let text = format!(
            "probe {} ended as {change:?}, but its handler as {:?}",
            grant.probes,
            end.map(|end| end.phase)
        );
        findings.add(Rule::Breaker, job, row.at, text);
    }
}
