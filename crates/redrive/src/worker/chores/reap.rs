//! Reaps the jobs of lost workers.

use std::sync::Arc;

use super::{CHORE_BUDGET, Chores};
use crate::error::Result;
use crate::pipeline::claim::WorkerId;
use crate::pipeline::reap::{Reaped, reap};
use crate::sync::Instant;
use crate::worker::chore::Chore;

impl Chores<'_> {
    pub(super) fn reap(&mut self) -> Result<()> {
        let begun = Instant::now();
        if !self.queues.iter().all(|state| state.trust.may_reap(begun)) {
            return Ok(());
        }
        let health = *self.health(Chore::Reap);
        let ids = self.queues.iter().map(|state| state.identity.id);
        let (me, lease): (Arc<[WorkerId]>, _) = (ids.collect(), self.queues.lease());
        let mut all = Reaped::default();
        let reaped = loop {
            let me = Arc::clone(&me);
            match self.call("reap the jobs of lost workers", move |session| {
                reap(session, &me, lease, |most| health.bound(most))
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
            self.queues.iter().for_each(|state| state.look_for_jobs());
        }
        reaped
    }
}
