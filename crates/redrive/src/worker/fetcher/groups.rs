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
            if room == 0 || self.claimer.tokens_in.is_some() {
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
        let source = self.claimer.source.clone();
        let has_plenty = source.walk().has_plenty;
        let passed = match has_plenty {
            // The walk finds enough groups by itself. Later, it may have gone past these.
            true => Vec::new(),
            false => self.state.take_passed(),
        };
        let in_a_row = match self.claimer.tokens {
            None => self.state.in_a_row(limit),
            // A follower would wait too long to use its token.
            Some(_) => 1,
        };
        let look = source.walk().look(limit, in_a_row, passed);
        let Some(answer) = self.claimer.claim_groups(limit, look)? else {
            return Ok(Vec::new());
        };
        let now = Instant::now();
        let (took, claimed) = (now.duration_since(asked_at), answer.claimed);
        let place = answer.place;
        source.walk().note(now, took, claimed.len(), place);
        Ok(claimed)
    }

    /// Moves a job that waits for its group to the other ready jobs, where the next probe finds it. Returns whether there
    /// was one, or other groups may have one.
    pub(super) fn offer_probe(&mut self, source: &Source) -> Result<bool> {
        if !self.state.breakers.has_groups() {
            return Ok(false);
        }
        let request = self.claimer.request_of(source, 1);
        let look = source.walk().look_for_probe(request.limit);
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
        let mut walk = source.walk();
        walk.note(Instant::now(), took, moved, answer.place);
        Ok(moved > 0 || !walk.is_over())
    }
}
