//! A round of claims: each source is first at times, so that none starves, and a limit without tokens delays no other job.

use std::sync::Arc;

use super::Fetcher;
use crate::error::Result;
use crate::pipeline::claim::ClaimedJob;
use crate::worker::breaker_state::ClaimPlan;
use crate::worker::claimer::add;
use crate::worker::source::Source;

impl Fetcher {
    /// Promotes due jobs and claims up to `demand` jobs as planned.
    pub(super) fn round(&mut self, demand: usize, plan: &ClaimPlan) -> Result<Vec<ClaimedJob>> {
        let handled = self.state.kinds.as_ref();
        self.sources = self.known_sources.of(plan, handled);
        if plan.probe.is_some() {
            // Each probe asks for tokens, because a breaker must not wait for what is no longer true.
            for source in &self.sources {
                source.note_tokens(None);
            }
        }
        self.promote_when_due()?;
        fastrand::shuffle(&mut self.sources);
        let has_groups = self.state.breakers.has_groups();
        let mut claimed = Vec::new();
        for source in &self.sources.clone() {
            if !source.is_due(self.woken) {
                continue;
            }
            let are_groups_first = has_groups && fastrand::bool();
            for are_groups in [are_groups_first, !are_groups_first] {
                let room = demand.saturating_sub(claimed.len());
                if room == 0 || source.lacks_tokens() || are_groups && !has_groups {
                    continue;
                }
                let more = match are_groups {
                    true => self.claimer.claim_groups(source, room),
                    false => self.claim_ring(source, room),
                };
                add(&self.state, &mut claimed, more)?;
            }
            source.rest(has_groups);
        }
        // The notification may be for a delayed job. A promotion returns when it is due.
        if self.woken && claimed.is_empty() && self.promote()? {
            self.state.look_for_jobs();
        }
        self.woken = false;
        Ok(claimed)
    }

    /// Claims jobs that do not wait for a group: after a notification that one, if possible.
    fn claim_ring(&mut self, source: &Arc<Source>, room: usize) -> Result<Vec<ClaimedJob>> {
        if source.limit.is_some() {
            return self.claimer.claim(source, room);
        }
        if self.woken && self.policy.is_notified() {
            let told_of = self.claimer.claim_one(source)?;
            if !told_of.is_empty() {
                return Ok(told_of);
            }
        }
        let claimed = self.claimer.claim(source, room)?;
        self.ask_for_help(source, claimed.len());
        Ok(claimed)
    }
}
