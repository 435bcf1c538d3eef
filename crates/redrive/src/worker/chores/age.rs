//! Raises the priority of ready jobs that have waited for the configured time.

use super::{CHORE_BUDGET, Chores};
use crate::db::sql;
use crate::error::Result;
use crate::job::milliseconds::milliseconds;
use crate::sync::Instant;
use crate::worker::chore::Chore;
use crate::worker::state::State;

/// The maximum number of jobs per statement.
const AGED: i32 = 500;

impl Chores<'_> {
    /// Raises jobs that have waited for the time of the queue, if it has one.
    pub(super) fn age_priorities(&mut self, state: &State) -> Result<()> {
        const DOING: &str = "age priorities";
        let Some((after, priority)) = state.config.age_priorities else {
            return Ok(());
        };
        let begun = Instant::now();
        let most = i64::from(self.task(Chore::Age).bound(AGED));
        let (waited_ms, priority) = (milliseconds(after), i32::from(priority));
        let mut all = 0;
        while begun.elapsed() < CHORE_BUDGET {
            let name = state.queue().to_owned();
            let aged: i64 = self.call(DOING, move |session| {
                let parameters: [sql::Parameter<'_>; 4] = [&name, &waited_ms, &priority, &most];
                Ok(session
                    .query_one(DOING, &sql::AGE_JOBS, &parameters)?
                    .get(0))
            })?;
            all += aged;
            if aged < most {
                break;
            }
        }
        if all > 0 {
            log::debug!(
                "{state}: {all} jobs waited for over {after:?} and got priority {priority}"
            );
        }
        Ok(())
    }
}
