//! Reaps the jobs of lost workers.

use super::{CHORE_BUDGET, Chores};
use crate::error::Result;
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
        let (task, lease) = (*self.task(Chore::Reap), self.queues.lease());
        let (mut back, mut dead) = (0, 0);
        let reaped = loop {
            let reap = reap(&self.queues.ids(), lease, |most| task.bound(most));
            let jobs = match self.call("reap the jobs of lost workers", reap) {
                Ok(jobs) => jobs,
                Err(error) => break Err(error),
            };
            let died = jobs.iter().filter(|(_, is_dead)| *is_dead).count();
            (back, dead) = (back + jobs.len() - died, dead + died);
            if jobs.is_empty() || begun.elapsed() >= CHORE_BUDGET {
                break Ok(());
            }
        };
        if back + dead > 0 {
            log::warn!(
                "{}: reaped lost workers: {back} jobs released, {dead} dead",
                self.state
            );
            self.queues.iter().for_each(|state| state.look_for_jobs());
        }
        reaped
    }
}
