//! Checks that workers start no job that an open breaker holds back, except one per probe.

use std::collections::HashMap;

use uuid::Uuid;

use super::concerns;
use crate::checker::{Findings, Leased, Rule, Run};
use crate::db_trace::BreakerRow;

/// Renewals after which a worker has certainly read the breakers. It reads them as often as it renews.
const READS: usize = 4;
/// The same where faults may have failed some of the reads.
const READS_WITH_FAULTS: usize = 10;

pub(super) fn check(
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
        let Some(worker) = claim.span.worker else {
            continue;
        };
        let at = rows.partition_point(|row| row.at <= from);
        if let Some(row) = rows[..at].last()
            && *row.state == *"half_open"
            && row.prober == Some(worker)
            && claim.span.began >= row.began
            && concerns(row, claim)
        {
            // A claim that was on its way returns its jobs.
            if claim.attempt.is_some()
                && let Some(first) = probes.insert(row.probes, job)
            {
                let text = format!("probe {} started job {first} already", row.probes);
                findings.add(Rule::Breaker, job, from, text);
            }
            continue;
        }
        let begin = claim.attempt.map(|attempt| attempt.begin.at);
        let start = begin.unwrap_or(claim.span.began);
        let Some(since) = held_since(rows, claim, worker, start) else {
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
fn held_since(rows: &[BreakerRow], claim: &Leased<'_>, worker: Uuid, at: i64) -> Option<i64> {
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
