//! Checks that workers start no job that an open breaker holds back, except one per probe.

use std::collections::HashMap;

use uuid::Uuid;

use super::{Claim, concerns};
use crate::checker::{Findings, Records, Rule, grouped};
use crate::db_trace::BreakerRow;

/// Renewals after which a worker has certainly read the breakers. It reads them as often as it renews.
const READS: usize = 3;
/// The same where faults may have failed some of the reads.
const READS_WITH_FAULTS: usize = 9;

pub(super) fn check(
    rows: &[BreakerRow],
    claims: &[Claim<'_>],
    records: &Records,
    findings: &mut Findings,
) {
    let enough = match records.terms.is_calm {
        true => READS,
        false => READS_WITH_FAULTS,
    };
    let renewals = records.renewals.iter();
    let renewals = grouped(renewals.map(|renewal| (renewal.worker, renewal.at)));
    let mut probes: HashMap<i64, i64> = HashMap::new();
    for claim in claims.iter().filter(|claim| concerns_any(rows, claim)) {
        let job = claim.row.job;
        let Some(worker) = claim.row.worker else {
            continue;
        };
        let at = rows.partition_point(|row| row.at <= claim.row.at);
        if let Some(row) = rows[..at].last()
            && *row.state == *"half_open"
            && row.prober == Some(worker)
            && claim.row.began >= row.began
            && concerns(row, claim)
        {
            // A claim that was on its way returns its jobs.
            let is_start = claim.begin.is_some();
            if is_start && let Some(first) = probes.insert(row.probes, job) {
                let text = format!("probe {} started job {first} already", row.probes);
                findings.add(Rule::Breaker, job, claim.row.at, text);
            }
            continue;
        }
        let start = claim.begin.map_or(claim.row.began, |begin| begin.at);
        let Some(since) = held_since(rows, claim, worker, start) else {
            continue;
        };
        let renewed = renewals.get(&worker).map_or(&[][..], Vec::as_slice);
        let reads = renewed
            .iter()
            .filter(|renewal| (since..start).contains(*renewal));
        if reads.count() > enough {
            let text = format!(
                "{} started it {} µs after the breaker {} had opened",
                claim.row.process,
                start - since,
                rows[0].name
            );
            findings.add(Rule::Breaker, job, start, text);
        }
    }
}

fn concerns_any(rows: &[BreakerRow], claim: &Claim<'_>) -> bool {
    rows.iter().any(|row| concerns(row, claim))
}

/// Returns since when the breaker has held back the job of a claim, at a time at which it does. A worker that loses
/// the right to a probe, because an operator opens the breaker again, must learn that first.
fn held_since(rows: &[BreakerRow], claim: &Claim<'_>, worker: Uuid, at: i64) -> Option<i64> {
    let known = rows.partition_point(|row| row.committed < at);
    let last = known.checked_sub(1)?;
    let is_lost_probe = |row: &BreakerRow| *row.state == *"half_open" && row.prober == Some(worker);
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
