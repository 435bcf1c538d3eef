//! Claims a probe for an open breaker.
//!
//! A probe searches for its job as a claim does, from marks of its own. Until its marks reach the newest ids, it uses half
//! of the time of the fetcher.

use std::time::Duration;

use super::Fetcher;
use super::limited::except;
use crate::error::Result;
use crate::job::job::JobMeta;
use crate::pipeline::claim::ClaimedJob;
use crate::pipeline::claim::mark::Scan;
use crate::pipeline::probe::{ProbeAnswer, ProbeVerdict, claim_probe, end_probe};
use crate::sync::Instant;
use crate::worker::breaker_state::{ClaimPlan, DueProbe, LocalLimits};
use crate::worker::source::Source;

/// The longest wait before another attempt to take a probe that is due. No breaker waits less for its probe.
const TRY_AGAIN: Duration = Duration::from_secs(1);

/// The result of a search for a probe: its job, or none if the right was not available. `None`: there is no job in what was
/// searched.
type FoundProbe = Option<Vec<ClaimedJob>>;

impl Fetcher {
    /// Claims one job as a probe, unless another process has the right to it.
    pub(super) fn probe(&mut self, due: &DueProbe, plan: &ClaimPlan) -> Result<Vec<ClaimedJob>> {
        let asked_at = Instant::now();
        let (mut found, mut is_behind) = (Ok(None), false);
        let held: &[String] = match due.kinds {
            None => &plan.except,
            Some(_) => &[],
        };
        // Other breakers still apply, and a kind whose limit has no token must not keep this one open for the others. But
        // if they hold back all jobs, one of those is the probe.
        let mut searches = vec![except(held, &plan.limits), Vec::new()];
        searches.dedup();
        for left_out in searches {
            let kinds = due.kinds.as_deref().or(self.state.kinds.as_deref());
            let source = self.probes.of(kinds, &left_out);
            found = self.find_probe(due, &source, &plan.limits);
            is_behind = source.search().is_behind();
            let is_over = match &found {
                Ok(Some(claimed)) => !claimed.is_empty(),
                Ok(None) => self.offer_probe(&source)? || is_behind,
                Err(_) => true,
            };
            if is_over {
                break;
            }
        }
        let wait = match &found {
            Ok(Some(claimed)) if !claimed.is_empty() => Duration::ZERO,
            // Half of the time is for the jobs of other kinds.
            Ok(None) if is_behind => asked_at.elapsed(),
            Ok(_) | Err(_) => TRY_AGAIN,
        };
        let again_at = Instant::now() + wait.min(TRY_AGAIN);
        self.put_off.retain(|_, at| *at > asked_at);
        self.put_off.insert(due.name.clone(), again_at);
        found.map(Option::unwrap_or_default)
    }

    /// Searches the next parts of the queue for a job to probe.
    fn find_probe(
        &mut self,
        due: &DueProbe,
        source: &Source,
        limits: &LocalLimits,
    ) -> Result<FoundProbe> {
        self.promote()?;
        for scan in self.claimer.scans(source)? {
            let found = self.probe_with(scan, due, source, limits)?;
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    }

    /// Searches what this scan reads for a job to probe.
    fn probe_with(
        &mut self,
        scan: Scan,
        due: &DueProbe,
        source: &Source,
        limits: &LocalLimits,
    ) -> Result<FoundProbe> {
        let (asked_at, lasting) = (Instant::now(), self.state.config.lease);
        let (name, limits) = (due.name.clone(), limits.clone());
        let answer = self.claimer.scan(
            "probe",
            (source, scan, 0),
            1,
            move |session, request| {
                let scope = |meta: &JobMeta| limits.scope(&meta.queue, Some(&meta.kind));
                let each_group = limits.each_group;
                claim_probe(session, &name, lasting, request, each_group, scope)
            },
            |answer: &ProbeAnswer| answer.as_ref().map(|(charged, _)| (charged, 1)),
        );
        let Some((charged, probe)) = answer? else {
            self.state.note_stale_gates();
            return Ok(Some(Vec::new()));
        };
        let claimed = charged.jobs;
        let (Some(job), Some(probe)) = (claimed.first(), probe) else {
            return Ok(None);
        };
        if self.state.has_left_out(job) {
            // It returns, and so does the right to probe it.
            self.call("end a probe", move |session| {
                end_probe(session, &probe, ProbeVerdict::Release)
            })?;
            return Ok(Some(claimed));
        }
        let (state, id, breaker) = (&self.state, job.meta.id, &probe.name);
        log::info!("{state} breaker={breaker} job={id}: probing");
        let breakers = &state.breakers;
        breakers.probing(job.lease, probe, asked_at + lasting);
        Ok(Some(claimed))
    }
}
