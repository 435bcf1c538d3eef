//! Tallies: what to count of the verdicts on a lease. Pure.
//!
//! The settler writes them in the same statement as the verdicts. Each names its lease, so that
//! nothing is counted for a lost lease.

use crate::pipeline::buckets::{self, bucket};
use crate::pipeline::judge::Verdict;
use crate::pipeline::outcome::FailureCause;
use crate::pipeline::settlement::Settlement;

/// A sum over the verdicts of a lease with the same key, label, cause and bucket.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Tally {
    pub(crate) key: &'static str,
    pub(crate) label: Option<String>,
    pub(crate) cause: Option<FailureCause>,
    pub(crate) bucket: Option<i16>,
    pub(crate) count: i64,
    pub(crate) sum: f64,
}

/// Returns what to count if the database accepts these verdicts on a lease unchanged.
pub(crate) fn tallies(settlements: &[Settlement]) -> Vec<Tally> {
    let mut counted: Vec<Tally> = Vec::new();
    let mut wait = HistogramTally::new(buckets::SECONDS);
    let mut succeeded = HistogramTally::new(buckets::SECONDS);
    let mut failed = HistogramTally::new(buckets::SECONDS);
    let mut end_to_end = HistogramTally::new(buckets::END_TO_END);
    let mut attempts = HistogramTally::new(buckets::ATTEMPTS);
    for settlement in settlements.iter().filter(|one| !one.is_unrun()) {
        let (kind, cause) = (Some(&*settlement.meta.kind), settlement.cause);
        let run_time = settlement.run_time.as_secs_f64();
        wait.add(settlement.meta.wait.as_secs_f64());
        // The database counts what becomes of the others.
        if settlement.verdict == Verdict::Done {
            count(&mut counted, "succeeded", kind, None);
            succeeded.add(run_time);
            end_to_end.add(settlement.age.as_secs_f64());
            attempts.add(settlement.meta.attempt.into());
        }
        if cause.is_some() {
            count(&mut counted, "failed", kind, cause);
            failed.add(run_time);
        }
    }
    counted
        .into_iter()
        .chain(wait.tallies("wait", None))
        .chain(succeeded.tallies("run", Some("succeeded")))
        .chain(failed.tallies("run", Some("failed")))
        .chain(end_to_end.tallies("end_to_end", None))
        .chain(attempts.tallies("attempts_done", None))
        .collect()
}

fn count(
    counted: &mut Vec<Tally>,
    key: &'static str,
    kind: Option<&str>,
    cause: Option<FailureCause>,
) {
    let same = |tally: &&mut Tally| {
        tally.key == key && tally.label.as_deref() == kind && tally.cause == cause
    };
    match counted.iter_mut().find(same) {
        Some(tally) => tally.count += 1,
        None => counted.push(Tally {
            key,
            label: kind.map(str::to_owned),
            cause,
            bucket: None,
            count: 1,
            sum: 0.0,
        }),
    }
}

/// A histogram: count and sum per bucket.
struct HistogramTally {
    bounds: &'static [f64],
    buckets: Vec<(i64, f64)>,
}

impl HistogramTally {
    fn new(bounds: &'static [f64]) -> HistogramTally {
        HistogramTally {
            bounds,
            buckets: Vec::new(),
        }
    }

    fn add(&mut self, observed: f64) {
        if self.buckets.is_empty() {
            self.buckets = vec![(0, 0.0); self.bounds.len() + 1];
        }
        let place = usize::try_from(bucket(self.bounds, observed)).unwrap_or_default();
        if let Some((count, sum)) = self.buckets.get_mut(place) {
            *count += 1;
            *sum += observed;
        }
    }

    fn tallies(self, key: &'static str, label: Option<&str>) -> impl Iterator<Item = Tally> {
        (0..)
            .zip(self.buckets)
            .filter(|(_, (count, _))| *count > 0)
            .map(move |(bucket, (count, sum))| Tally {
                key,
                label: label.map(str::to_owned),
                cause: None,
                bucket: Some(bucket),
                count,
                sum,
            })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use super::*;
    use crate::job::job::JobMeta;
    use crate::pipeline::claim::LeaseId;

    #[test]
    fn a_job_that_did_not_run_waits_on_and_is_counted_once() {
        let (lease, meta) = (LeaseId(uuid::Uuid::nil()), JobMeta::of_a_sample());
        let now = meta.claimed;
        let ran = Settlement::done(lease, &Arc::new(meta), Duration::ZERO, None, now);
        let unrun = Settlement {
            has_run: false,
            verdict: Verdict::Snooze(Duration::ZERO),
            ..ran.clone()
        };
        assert_eq!(tallies(&[unrun, ran.clone()]), tallies(&[ran]));
    }
}
