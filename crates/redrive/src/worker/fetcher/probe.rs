//! Claims a probe for an open breaker: one job, which runs if this worker gets the right to probe.
//!
//! Until its search reaches the newest ids, it uses half of the time of the fetcher.

use std::time::Duration;

use super::Fetcher;
use crate::error::Result;
use crate::pipeline::claim::{ClaimedJob, LeaseId};
use crate::pipeline::probe::{Probe, take_probe};
use crate::sync::Instant;
use crate::worker::breaker_state::ClaimPlan;

/// The longest wait before another attempt to take a probe that is due. No breaker waits less for its probe.
const TRY_AGAIN: Duration = Duration::from_secs(1);

impl Fetcher {
    /// Claims one job as a probe, unless another process has the right to it.
    pub(super) fn probe(&mut self, breaker: &str, plan: &ClaimPlan) -> Result<Vec<ClaimedJob>> {
        let asked_at = Instant::now();
        self.promote()?;
        let mut claimed = self.round(1, plan)?;
        let mut goes_on = self.searches_on();
        if claimed.is_empty() && !goes_on && !plan.except.is_empty() {
            // Other breakers hold back all jobs, so one of those is the probe.
            let mut plan = plan.clone();
            plan.except.clear();
            claimed = self.round(1, &plan)?;
            goes_on = self.searches_on();
        }
        let right = claimed
            .first()
            .map_or(Ok(false), |job| self.take_right(breaker, job));
        if let Ok(true) = right {
            return Ok(claimed);
        }
        let wait = match claimed.is_empty() && goes_on {
            // Half of the time is for the jobs of other kinds.
            true => asked_at.elapsed().min(TRY_AGAIN),
            false => TRY_AGAIN,
        };
        // Another worker of the queue may find a job for it.
        let again_at = Instant::now() + wait;
        self.state.breakers.put_off(breaker, again_at);
        let leases: Vec<LeaseId> = claimed.iter().map(|job| job.lease).collect();
        self.give_back(&leases);
        right.map(|_| Vec::new())
    }

    /// Whether the search for a job to probe goes on.
    fn searches_on(&self) -> bool {
        let has_groups = self.state.breakers.has_groups();
        let mut sources = self.sources.iter();
        sources.any(|source| !source.lacks_tokens() && source.is_unfinished(has_groups))
    }

    /// Takes the right to probe a claimed job. Returns `false` if another process has it, or if the job may not run.
    fn take_right(&mut self, breaker: &str, job: &ClaimedJob) -> Result<bool> {
        if self.state.has_left_out(job) {
            return Ok(false);
        }
        let (asked_at, lasting) = (Instant::now(), self.state.config.lease);
        let taken = self
            .claimer
            .call("take a probe", take_probe(breaker, lasting))?;
        let (state, id) = (&self.state, job.meta.id);
        let Some(number) = taken.first().copied() else {
            state.note_stale_gates();
            return Ok(false);
        };
        let probe = Probe {
            name: breaker.to_owned(),
            number,
        };
        log::info!("{state} breaker={breaker} job={id}: probing");
        let until = asked_at + lasting;
        state.breakers.probing(job.lease, probe, until);
        Ok(true)
    }
}
