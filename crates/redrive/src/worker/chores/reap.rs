//! Reaps the jobs of lost workers.

use std::sync::Arc;

use super::{CHORE_BUDGET, Chores};
use crate::error::Result;
use crate::pipeline::claim::WorkerId;
use crate::pipeline::reap::reap;
use crate::sync::Instant;
use crate::worker::chore::Chore;
use crate::worker::latch::lock;

impl Chores<'_> {
    pub(super) fn reap(&mut self) -> Result<()> {
        let begun = Instant::now();
        // The others may be cut off as well.
        let is_away = self.queues.iter().any(|state| !state.trust.holds(begun));
        if is_away || lock(&self.state.shared.reap_from).is_some_and(|from| begun < from) {
            return Ok(());
        }
        let task = *self.task(Chore::Reap);
        let ids = self.queues.iter().map(|state| state.identity.id);
        let (me, lease): (Arc<[WorkerId]>, _) = (ids.collect(), self.queues.lease());
        let (mut all_back, mut all_dead) = (0, 0);
        let reaped = loop {
            let me = Arc::clone(&me);
            let reaped = self.call("reap the jobs of lost workers", move |session| {
                reap(session, &me, lease, |most| task.bound(most))
            });
            let (back, dead) = match reaped {
                Ok(reaped) => reaped,
                Err(error) => break Err(error),
            };
            (all_back, all_dead) = (all_back + back, all_dead + dead);
            if back + dead == 0 || begun.elapsed() >= CHORE_BUDGET {
                break Ok(());
            }
        };
        if all_back + all_dead > 0 {
            log::warn!(
                "{}: reaped lost workers: {all_back} jobs released, {all_dead} dead",
                self.state
            );
            self.queues.iter().for_each(|state| state.look_for_jobs());
        }
        reaped
    }
}
