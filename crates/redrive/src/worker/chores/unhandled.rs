//! Warns of ready jobs whose kind no live worker handles, and buries them after the configured time.

use std::time::Duration;

use super::{CHORE_BUDGET, Chores};
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
        const LOOK: &str = "look for kinds without a worker";
        let begun = Instant::now();
        let own = state.kinds.as_deref();
        let Some(own) = own.filter(|_| self.wants_unhandled(state, begun)) else {
            return Ok(());
        };
        let name = state.queue().to_owned();
        let mut kinds: Vec<String> = self.call(LOOK, move |session| {
            let rows = session.query(LOOK, &sql::UNHANDLED_KINDS, &[&name, &JOBS_READ])?;
            Ok(rows.iter().map(|row| row.get("kind")).collect())
        })?;
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
        for kind in kinds {
            self.bury_kind(state, &kind, limit, begun)?;
        }
        Ok(())
    }

    /// Makes letters of the ready jobs of a kind until none is left or the time is used up.
    fn bury_kind(
        &mut self,
        state: &State,
        kind: &str,
        limit: Duration,
        begun: Instant,
    ) -> Result<()> {
        const BURY: &str = "bury jobs without a worker";
        let message =
            format!("no live worker of the queue has handled the kind `{kind}` for {limit:?}");
        let most = i64::from(self.task(Chore::Unhandled).bound(BURIED));
        let mut all = 0;
        while begun.elapsed() < CHORE_BUDGET {
            let (queue, kind) = (state.queue().to_owned(), kind.to_owned());
            let message = message.clone();
            let buried: i64 = self.call(BURY, move |session| {
                let parameters: [sql::Parameter<'_>; 4] = [&queue, &kind, &message, &most];
                let row = session.query_one(BURY, &sql::BURY_UNHANDLED, &parameters)?;
                Ok(row.get(0))
            })?;
            all += buried;
            if buried < most {
                break;
            }
        }
        if all > 0 {
            log::warn!("{state} kind={kind}: {all} jobs dead: {message}");
        }
        Ok(())
    }
}
