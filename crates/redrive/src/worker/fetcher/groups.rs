//! Claims jobs that wait for their group.

use super::Fetcher;
use crate::error::Result;
use crate::pipeline::claim::ClaimedJob;
use crate::sync::Instant;
use crate::worker::claimer::add;

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
}
