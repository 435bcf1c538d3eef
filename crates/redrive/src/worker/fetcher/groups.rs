//! Claims jobs that wait for their group.

use std::sync::Arc;
use std::time::Duration;

use super::Fetcher;
use crate::error::Result;
use crate::pipeline::claim::groups::claim_groups;
use crate::pipeline::claim::{ClaimRequest, ClaimedJob};
use crate::pipeline::settle::{ReleaseScope, release};
use crate::sync::Instant;

/// Whether the next claim of a queue with groups starts with the groups or with the other jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum GroupTurn {
    Groups,
    Ring,
}

impl Fetcher<'_> {
    /// Claims jobs that wait for their group, and others. They take turns at being first.
    pub(super) fn claim_with_groups(&mut self, demand: usize) -> Result<Vec<ClaimedJob>> {
        let first = self.turn;
        let (mut claimed, next) = match first {
            GroupTurn::Groups => (self.claim_groups(demand)?, GroupTurn::Ring),
            GroupTurn::Ring => (self.claim_ring(demand)?, GroupTurn::Groups),
        };
        self.turn = next;
        if claimed.len() >= demand {
            return Ok(claimed);
        }
        let rest = demand - claimed.len();
        let more = match first {
            GroupTurn::Groups => self.claim_ring(rest),
            GroupTurn::Ring => self.claim_groups(rest),
        };
        match more {
            Ok(mut more) => claimed.append(&mut more),
            Err(error) if claimed.is_empty() => return Err(error),
            // Run what was claimed. The next round retries.
            Err(error) => self.state.report_error(&error, Duration::ZERO),
        }
        Ok(claimed)
    }

    fn claim_groups(&mut self, limit: usize) -> Result<Vec<ClaimedJob>> {
        let asked_at = Instant::now();
        let request = ClaimRequest {
            limit,
            ..self.claimer.request()
        };
        let passed = self.state.passed_groups.take();
        let look = self.walk.look(limit, passed.clone());
        let state = Arc::clone(self.state);
        let answer = state.requesting(limit, || {
            self.call("claim jobs of groups", move |session| {
                claim_groups(session, &request, &look)
            })
        });
        let answer = match answer {
            Ok(answer) => answer,
            Err(error) => {
                self.state.passed_groups.note(passed);
                return Err(error);
            }
        };
        self.state.hold(&answer.claimed);
        let now = Instant::now();
        let took = now.duration_since(asked_at);
        self.walk
            .note(now, took, answer.claimed.len(), answer.place);
        Ok(answer.claimed)
    }

    /// Moves a job that waits for its group to the other ready jobs, where a probe finds it. Returns how
    /// many were moved.
    pub(super) fn offer_probe(&mut self, request: ClaimRequest) -> Result<usize> {
        let look = self.walk.look(request.limit, Vec::new());
        let (answer, took) = {
            let asked_at = Instant::now();
            let answer = self.call("look for a job of a group to probe", move |session| {
                let answer = claim_groups(session, &request, &look)?;
                // If this fails, the worker releases the lease as one of a lost claim.
                let leases = answer.claimed.iter().map(|job| job.lease).collect();
                release(session, request.worker, &ReleaseScope::Leases(leases), &[])?;
                Ok(answer)
            })?;
            (answer, asked_at.elapsed())
        };
        let moved = answer.claimed.len();
        self.walk.note(Instant::now(), took, moved, answer.place);
        Ok(moved)
    }
}
