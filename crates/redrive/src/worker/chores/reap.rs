//! Reaps the jobs of lost workers.

use super::{CHORE_BUDGET, Chores};
use crate::error::Result;
use crate::pipeline::reap::{ReapBounds, Reaped, reap};
use crate::sync::Instant;
use crate::worker::chore::Chore;

impl Chores<'_> {
    pub(super) fn reap(&mut self) -> Result<()> {
        let begun = Instant::now();
        if !self.state.trust.may_reap(begun) {
            return Ok(());
        }
        let bounds = ReapBounds::default();
        let bounds = ReapBounds {
            leases: self.health(Chore::Reap).bound(bounds.leases),
            jobs: self.health(Chore::Reap).bound(bounds.jobs),
            bytes: self.health(Chore::Reap).bound(bounds.bytes),
        };
        let (me, lease) = (self.state.identity.id, self.state.config.lease);
        let mut all = Reaped::default();
        let reaped = loop {
            match self.call("reap the jobs of lost workers", move |session| {
                reap(session, me, lease, bounds)
            }) {
                Ok(reaped) => all += reaped,
                Err(error) => break Err(error),
            }
            if all.is_complete || begun.elapsed() >= CHORE_BUDGET {
                break Ok(());
            }
        };
        if all.back + all.dead > 0 {
            log::warn!(
                "{}: reaped lost workers: {} jobs released, {} dead",
                self.state,
                all.back,
                all.dead
            );
            self.wake();
        }
        reaped
    }
}
