//! Raises the priority of ready jobs that have waited for the configured time.

use super::Chores;
use crate::db::column::Given;
use crate::db::sql;
use crate::error::Result;
use crate::sync::Instant;
use crate::worker::chore::Chore;
use crate::worker::state::State;

/// The maximum number of jobs per statement.
const AGED: i32 = 500;

impl Chores<'_> {
    /// Raises jobs that have waited for the time of the queue, if it has one.
    pub(super) fn age_priorities(&mut self, state: &State) -> Result<()> {
        let Some((after, priority)) = state.config.age_priorities else {
            return Ok(());
        };
        let most = i64::from(self.task(Chore::Age).bound(AGED));
        let given: [&dyn Given; 4] = [&state.queue(), &after, &i32::from(priority), &most];
        let all = self.repeat(
            "age priorities",
            Instant::now(),
            most,
            &sql::AGE_JOBS,
            &given,
        )?;
        if all > 0 {
            log::debug!(
                "{state}: {all} jobs waited for over {after:?} and got priority {priority}"
            );
        }
        Ok(())
    }
}
