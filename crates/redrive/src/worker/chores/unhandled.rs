//! Warns of ready jobs whose kind no live worker handles, and buries them after the configured time.

use std::time::Duration;

use super::Chores;
use crate::db::ask::all;
use crate::db::column::Given;
use crate::db::sql;
use crate::error::Result;
use crate::sync::Instant;
use crate::worker::chore::Chore;
use crate::worker::state::State;

/// The maximum number of ready jobs whose kinds are read.
const JOBS_READ: i64 = 10_000;
/// How often to warn.
const WARN_EVERY: Duration = Duration::from_mins(1);
/// How many kinds are named at a time.
const WARNED: usize = 20;
/// The maximum number of jobs per statement.
const BURIED: i32 = 500;

impl Chores<'_> {
    /// Whether it is time to warn of jobs of a queue, or its jobs may die.
    pub(super) fn wants_unhandled(&self, state: &State, now: Instant) -> bool {
        let warn_at = self.of_queues[state.place].warn_at;
        let is_time = warn_at.is_none_or(|at| at <= now);
        state.kinds.is_some() && (is_time || state.config.unhandled_after.is_some())
    }

    /// Looks for kinds that no live worker handles, warns of them, and makes letters of the jobs of those that none has
    /// handled for the time of the queue, if it has one.
    ///
    /// This worker handles its own kinds, even if the database has not heard from it for longer than its lease.
    pub(super) fn look_for_unhandled(&mut self, state: &State) -> Result<()> {
        let begun = Instant::now();
        let own = state.kinds.as_deref();
        let Some(own) = own.filter(|_| self.wants_unhandled(state, begun)) else {
            return Ok(());
        };
        let doing = "look for kinds without a worker";
        let look = all(doing, &sql::UNHANDLED_KINDS, &[&state.queue(), &JOBS_READ]);
        let mut kinds: Vec<String> = self.call(doing, look)?;
        kinds.retain(|kind| !own.contains(kind));
        let of_queue = &mut self.of_queues[state.place];
        if of_queue.warn_at.is_none_or(|at| at <= begun) {
            of_queue.warn_at = Some(begun + WARN_EVERY);
            for kind in kinds.iter().take(WARNED) {
                log::warn!("{state} kind={kind}: no live worker handles this kind of ready jobs");
            }
            if kinds.len() > WARNED {
                let others = kinds.len() - WARNED;
                log::warn!("{state}: no live worker handles {others} more kinds of ready jobs");
            }
        }
        let Some(limit) = state.config.unhandled_after else {
            return Ok(());
        };
        // A kind that is handled again, or whose jobs are gone, is forgotten.
        of_queue.unhandled.retain(|kind, _| kinds.contains(kind));
        let is_long = |kind: &String| {
            let since = of_queue.unhandled.entry(kind.clone()).or_insert(begun);
            begun.saturating_duration_since(*since) >= limit
        };
        kinds.retain(is_long);
        let most = i64::from(self.task(Chore::Unhandled).bound(BURIED));
        for kind in kinds {
            let why =
                format!("no live worker of the queue has handled the kind `{kind}` for {limit:?}");
            let given: [&dyn Given; 4] = [&state.queue(), &kind, &why, &most];
            let doing = "bury jobs without a worker";
            let buried = self.repeat(doing, begun, most, &sql::BURY_UNHANDLED, &given)?;
            if buried > 0 {
                log::warn!("{state} kind={kind}: {buried} jobs dead: {why}");
            }
        }
        Ok(())
    }
}
