//! Runs the ticks of schedules.

use super::Chores;
use crate::error::Result;
use crate::job::wait::from_now;
use crate::schedule::tick::run_schedules;
use crate::sync::Instant;
use crate::worker::chore::Chore;

impl Chores<'_> {
    /// Runs the schedules if one ticks now.
    pub(super) fn tick_if_due(&mut self, now: Instant) {
        if self.schedules_at.is_some_and(|at| now >= at) {
            // Until a look learns it again, if the chore fails or is paused.
            self.schedules_at = None;
            self.attempt(Chore::Schedules, Chores::run_schedules);
        }
    }

    /// Runs the ticks that are due, and remembers when the next one is.
    pub(super) fn run_schedules(&mut self) -> Result<()> {
        let ticked = self.call("run the schedules", run_schedules)?;
        self.schedules_at = ticked.next.map(from_now);
        for (level, line) in ticked.lines {
            log::log!(level, "{} {line}", self.state);
        }
        Ok(())
    }
}
