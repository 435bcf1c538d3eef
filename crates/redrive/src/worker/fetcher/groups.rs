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
        let in_a_row = match self.claimer.tokens {
            None => self.state.in_a_row(limit),
            // A follower would wait too long to use its token.
            Some(_) => 1,
        };
        let look = source.walk().look(limit, in_a_row);
        let Some(answer) = self.claimer.claim_groups(limit, look)? else {
            return Ok(Vec::new());
        };
        let now = Instant::now();
        let (took, claimed) = (now.duration_since(asked_at), answer.claimed);
        let place = answer.place;
        source.walk().note(now, took, claimed.len(), place);
        Ok(claimed)
    }
}
