//! Claims jobs that wait for their group.

use std::time::Duration;

use super::Fetcher;
use crate::error::Result;
use crate::pipeline::claim::ClaimedJob;
use crate::pipeline::claim::LeaseId;
use crate::pipeline::claim::groups::claim_groups;
use crate::pipeline::settle::release;
use crate::sync::Instant;
use crate::worker::claimer::add;
use crate::worker::source::Source;

impl Fetcher {
    /// Claims jobs that wait for their group, and others. Each of them is first at times.
    pub(super) fn claim_with_groups(&mut self, demand: usize) -> Result<Vec<ClaimedJob>> {
        let are_groups_first = fastrand::bool();
        let mut claimed = Vec::new();
        for are_groups in [are_groups_first, !are_groups_first] {
            let room = demand.saturating_sub(claimed.len());
            if room == 0 {
                break;
            }
            let more = match are_groups {
                true => self.claim_groups(room),
                false => self.claim_ring(room),
            };
            add(&self.state, &mut claimed, more)?;
        }
        Ok(claimed)
    }

    fn claim_groups(&mut self, limit: usize) -> Result<Vec<ClaimedJob>> {
        let asked_at = Instant::now();
        let passed = match self.walk.has_plenty {
            // The walk finds enough groups by itself. Later, it may have gone past these.
            true => Vec::new(),
            false => self.state.take_passed(),
        };
        let in_a_row = self.state.in_a_row(limit);
        let look = self.walk.look(limit, in_a_row, passed);
        let answer = self.claimer.claim_groups(limit, look)?;
        let now = Instant::now();
        let (took, claimed) = (now.duration_since(asked_at), answer.claimed);
        self.walk.note(now, took, claimed.len(), answer.place);
        Ok(claimed)
    }

    /// Moves a job that waits for its group to the other ready jobs, where the next probe finds it. Returns whether there
    /// was one, or other groups may have one.
    pub(super) fn offer_probe(&mut self, source: &Source) -> Result<bool> {
        if !self.state.breakers.has_groups() {
            return Ok(false);
        }
        let request = self.claimer.request_of(source, 1);
        let look = self.walk.look_for_probe(request.limit);
        let asked_at = Instant::now();
        let answer = self.call("look for a job of a group to probe", move |session| {
            let answer = claim_groups(session, &request, &look)?;
            // If this fails, the worker releases the lease as one of a lost claim.
            let leases: Vec<LeaseId> = answer.claimed.iter().map(|job| job.lease).collect();
            let (leases, age) = (Some(&*leases), Duration::ZERO);
            release(session, request.identity.id, leases, age, Some(&[]))?;
            Ok(answer)
        })?;
        let (took, moved) = (asked_at.elapsed(), answer.claimed.len());
        self.walk.note(Instant::now(), took, moved, answer.place);
        Ok(moved > 0 || !self.walk.is_over())
    }
}
