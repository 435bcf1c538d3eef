//! Warns of ready jobs whose kind no live worker handles, and buries them after the configured time.

use std::time::Duration;

use super::Chores;
use crate::db::ask::all;
use crate::db::column::Given;
use crate::db::sql;
use crate::error::Result;
use crate::job::error_report::one_line;
use crate::job::wait::from_now;
use crate::sync::Instant;
use crate::worker::chore::Chore;
use crate::worker::state::State;

/// The maximum number of ready jobs whose kinds are read.
const JOBS_READ: i64 = 10_000;
/// How often to look if no jobs may die.
const LOOK_EVERY: Duration = Duration::from_mins(1);
/// How many kinds are named at a time.
const WARNED: usize = 20;
/// The maximum number of jobs per statement.
const BURIED: i32 = 500;

impl Chores<'_> {
    /// Looks for kinds that no live worker handles, and warns of each once. Makes letters of the jobs of those that none
    /// has handled for the time of their queue, if it has one.
    pub(super) fn look_for_unhandled(&mut self) -> Result<()> {
        let mut states = self.queues.iter();
        let may_die = states.any(|state| state.config.unhandled_after.is_some());
        self.task(Chore::Unhandled).rests_until = (!may_die).then(|| from_now(LOOK_EVERY));
        self.in_each_queue(Self::look_in)
    }

    /// This worker handles its own kinds, even if the database has not heard from it for longer than its lease.
    fn look_in(&mut self, state: &State) -> Result<()> {
        let Some(own) = state.kinds.as_deref() else {
            return Ok(());
        };
        let (begun, doing) = (Instant::now(), "look for kinds without a worker");
        let look = all(doing, &sql::UNHANDLED_KINDS, &[&state.queue(), &JOBS_READ]);
        // Both are sorted by their bytes.
        let mut kinds: Vec<String> = self.call(doing, look)?;
        kinds.retain(|kind| own.binary_search(kind).is_err());
        let since = &mut self.unhandled[state.place];
        // A kind that is handled again, or whose jobs are gone, is forgotten.
        since.retain(|kind, _| kinds.binary_search(kind).is_ok());
        let is_new = |kind: &&String| !since.contains_key(*kind);
        let new: Vec<&str> = kinds.iter().filter(is_new).map(|it| &**it).collect();
        if !new.is_empty() {
            let (number, named) = (new.len(), new[..new.len().min(WARNED)].join("`, `"));
            let named = one_line(&named);
            log::warn!("{state}: no live worker handles ready jobs of kinds ({number}): `{named}`");
        }
        since.extend(new.into_iter().map(|kind| (kind.to_owned(), begun)));
        let Some(limit) = state.config.unhandled_after else {
            return Ok(());
        };
        kinds.retain(|kind| begun.saturating_duration_since(since[kind]) >= limit);
        let most = i64::from(self.task(Chore::Unhandled).bound(BURIED));
        for kind in kinds {
            let why =
                format!("no live worker of the queue has handled the kind `{kind}` for {limit:?}");
            let given: [&dyn Given; 4] = [&state.queue(), &kind, &why, &most];
            let doing = "bury jobs without a worker";
            let buried = self.repeat(doing, begun, most, &sql::BURY_UNHANDLED, &given)?;
            if buried > 0 {
                let (kind, why) = (one_line(&kind), one_line(&why));
                log::warn!("{state} kind={kind}: {buried} jobs dead: {why}");
            }
        }
        Ok(())
    }
}
