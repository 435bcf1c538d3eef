//! Tallies: what to count of the verdicts on leases. Pure.
//!
//! The settler writes them in the same statement as the verdicts. Each names its lease, so that
//! nothing is counted for a lost lease.

use uuid::Uuid;

use crate::pipeline::buckets::{self, bucket};
use crate::pipeline::judge::Verdict;
use crate::pipeline::settlement::Settlement;

/// How many places are searched for a count to add to. A lease of a few kinds has fewer; in one of a thousand kinds, a
/// count may have several places.
const LOOKS_BACK: usize = 64;

/// The count and the sum of what has the same lease, key, label, cause and bucket, one array per column.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Tallies<'a> {
    pub(crate) leases: Vec<Uuid>,
    pub(crate) keys: Vec<&'static str>,
    pub(crate) labels: Vec<Option<&'a str>>,
    pub(crate) causes: Vec<Option<&'static str>>,
    pub(crate) buckets: Vec<Option<i16>>,
    pub(crate) counts: Vec<i64>,
    pub(crate) sums: Vec<f64>,
}

impl<'a> Tallies<'a> {
    /// Returns what to count if the database accepts these verdicts unchanged. Those of a lease are together.
    pub(crate) fn of(settlements: &'a [Settlement]) -> Tallies<'a> {
        let mut tallies = Tallies::default();
        for one in settlements.iter().filter(|one| !one.is_unrun()) {
            let (lease, kind) = (one.lease.0, Some(&*one.meta.kind));
            let wait = observed(buckets::SECONDS, one.meta.wait.as_secs_f64());
            let run = observed(buckets::SECONDS, one.run_time.as_secs_f64());
            tallies.add(lease, "wait", None, None, Some(wait));
            // The database counts what becomes of the others.
            if one.verdict == Verdict::Done {
                let age = observed(buckets::END_TO_END, one.age.as_secs_f64());
                let attempts = observed(buckets::ATTEMPTS, one.meta.attempt.into());
                tallies.add(lease, "succeeded", kind, None, None);
                tallies.add(lease, "run", Some("succeeded"), None, Some(run));
                tallies.add(lease, "end_to_end", None, None, Some(age));
                tallies.add(lease, "attempts_done", None, None, Some(attempts));
            }
            if let Some(cause) = one.cause {
                tallies.add(lease, "failed", kind, Some(cause.as_str()), None);
                tallies.add(lease, "run", Some("failed"), None, Some(run));
            }
        }
        tallies
    }

    /// Counts one, and what was [`observed`] of it.
    pub(crate) fn add(
        &mut self,
        lease: Uuid,
        key: &'static str,
        label: Option<&'a str>,
        cause: Option<&'static str>,
        observed: Option<(i16, f64)>,
    ) {
        let (bucket, value) = observed.unzip();
        let places = (0..self.leases.len()).rev().take(LOOKS_BACK);
        let mut its = places.take_while(|place| self.leases[*place] == lease);
        let same = its.find(|place| {
            let counted = (self.buckets[*place], self.keys[*place]);
            counted == (bucket, key) && (self.labels[*place], self.causes[*place]) == (label, cause)
        });
        let place = same.unwrap_or_else(|| {
            self.leases.push(lease);
            self.keys.push(key);
            self.labels.push(label);
            self.causes.push(cause);
            self.buckets.push(bucket);
            self.counts.push(0);
            self.sums.push(0.0);
            self.leases.len() - 1
        });
        self.counts[place] += 1;
        self.sums[place] += value.unwrap_or_default();
    }
}

/// Returns a value and its bucket in a histogram with these bounds.
pub(crate) fn observed(bounds: &[f64], value: f64) -> (i16, f64) {
    (bucket(bounds, value), value)
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
        let (lease, meta) = (LeaseId(Uuid::nil()), JobMeta::of_a_sample());
        let now = meta.claimed;
        let ran = Settlement::done(lease, &Arc::new(meta), Duration::ZERO, None, now);
        let unrun = Settlement {
            verdict: Verdict::Unrun(Duration::ZERO),
            ..ran.clone()
        };
        assert_eq!(Tallies::of(&[unrun, ran.clone()]), Tallies::of(&[ran]));
    }
}
