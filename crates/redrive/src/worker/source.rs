//! Sources: where claims look for jobs, and what they learned there. Jobs without a rate limit, those under each limit and
//! probes have different ones.

use std::sync::Arc;
use std::time::Duration;

use crate::job::wait::from_now;
use crate::pipeline::claim::group_walk::{GATHER, GroupWalk};
use crate::pipeline::claim::search::Search;
use crate::pipeline::gates::LimitStatus;
use crate::sync::{Instant, Mutex, MutexGuard};
use crate::worker::breaker_state::ClaimPlan;
use crate::worker::latch::lock;

/// The jobs that some claims look for, and where they search.
pub(crate) struct Source {
    /// The kinds to claim. `None`: all.
    pub(crate) kinds: Option<Arc<[String]>>,
    /// The kinds not to claim.
    pub(crate) except: Option<Arc<[String]>>,
    /// The kind whose limit has the tokens that its jobs need; empty: that of the queue. `None`: they need none.
    pub(crate) limit: Option<Arc<str>>,
    search: Mutex<Search>,
    walk: Mutex<GroupWalk>,
    pause: Mutex<Pause>,
}

/// When claims under a limit ask again.
#[derive(Clone, Copy)]
struct Pause {
    /// When there may be tokens. `None`: the last claim had more than it needed.
    tokens_at: Option<Instant>,
    /// Until then, other jobs have priority, unless there was a notification.
    ends_at: Instant,
}

impl Source {
    pub(crate) fn search(&self) -> MutexGuard<'_, Search> {
        lock(&self.search)
    }

    /// The walk over the groups with such jobs.
    pub(crate) fn walk(&self) -> MutexGuard<'_, GroupWalk> {
        lock(&self.walk)
    }

    /// Records how long its claims wait for more tokens. `None`: there were more than jobs.
    pub(crate) fn note_tokens(&self, wait: Option<Duration>) {
        lock(&self.pause).tokens_at = wait.map(|wait| from_now(wait.max(GATHER)));
    }

    pub(crate) fn lacks_tokens(&self) -> bool {
        lock(&self.pause)
            .tokens_at
            .is_some_and(|at| at > Instant::now())
    }

    /// Whether to claim now. A notification says that there may be jobs, not that there are tokens.
    pub(crate) fn is_due(&self, is_notified: bool) -> bool {
        let is_over = lock(&self.pause).ends_at <= Instant::now();
        self.limit.is_none() || !self.lacks_tokens() && (is_notified || is_over)
    }

    /// Lets other jobs have priority after claims under a limit, unless the search goes on.
    pub(crate) fn rest(&self, has_groups: bool) {
        let wait = self.wait(has_groups).unwrap_or(GATHER);
        lock(&self.pause).ends_at = from_now(wait.min(GATHER));
    }

    /// Returns how long a worker without jobs waits before it claims again. `None`: until it is woken or polls.
    pub(crate) fn wait(&self, has_groups: bool) -> Option<Duration> {
        let (now, pause) = (Instant::now(), *lock(&self.pause));
        if let Some(at) = pause.tokens_at {
            return Some(at.saturating_duration_since(now));
        }
        let walk = has_groups.then(|| self.walk().wait(now)).flatten();
        self.search().wait(now).into_iter().chain(walk).min()
    }

    /// Whether there may be jobs that no claim has looked for yet.
    pub(crate) fn is_unfinished(&self, has_groups: bool) -> bool {
        self.search().is_behind() || has_groups && self.walk().is_unfinished()
    }
}

/// How many sources a worker remembers of a queue if a round needs fewer. Handlers may name a dependency for each host.
const MAX_SOURCES: usize = 100;

/// The sources of a queue.
#[derive(Default)]
pub(crate) struct Sources {
    known: Vec<Arc<Source>>,
    /// The limits of the last plan.
    limits: Arc<[LimitStatus]>,
}

impl Sources {
    /// Returns the sources of a worker that handles these kinds, `None`: all. A claim continues where the last one of the
    /// same source ended.
    pub(crate) fn of(
        &mut self,
        plan: &ClaimPlan,
        handled: Option<&Arc<[String]>>,
    ) -> Vec<Arc<Source>> {
        if self.limits != plan.limits {
            self.limits = Arc::clone(&plan.limits);
            // Jobs with a limit of their kind need tokens of the queue, too.
            for source in &self.known {
                source.note_tokens(None);
            }
        }
        let kinds = plan.kinds.as_ref().or(handled).map(|kinds| &**kinds);
        let rest = plan.left_out(&plan.except);
        let limits = plan.targets(kinds).map(|limit| match &limit.kind {
            None => self.find(kinds, &rest, Some("")),
            Some(kind) => self.find(Some(std::slice::from_ref(kind)), &[], Some(kind)),
        });
        let mut all: Vec<Arc<Source>> = limits.collect();
        if !plan.limits_queue() {
            all.push(self.find(kinds, &rest, None));
        }
        // A forgotten search starts again, and so does a wait for tokens.
        if self.known.len() > MAX_SOURCES {
            self.known.clone_from(&all);
        }
        all
    }

    fn find(
        &mut self,
        kinds: Option<&[String]>,
        except: &[String],
        limit: Option<&str>,
    ) -> Arc<Source> {
        let except = (!except.is_empty()).then_some(except);
        let is_it = |known: &&Arc<Source>| {
            known.kinds.as_deref() == kinds
                && known.except.as_deref() == except
                && known.limit.as_deref() == limit
        };
        if let Some(known) = self.known.iter().find(is_it) {
            return Arc::clone(known);
        }
        let source = Arc::new(Source {
            kinds: kinds.map(Arc::from),
            except: except.map(Arc::from),
            limit: limit.map(Arc::from),
            search: Mutex::new(Search::new()),
            walk: Mutex::default(),
            pause: Mutex::new(Pause {
                tokens_at: None,
                ends_at: Instant::now(),
            }),
        });
        self.known.push(Arc::clone(&source));
        source
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_wait_for_their_tokens_however_many_there_are_until_one_changes() {
        let limit = |kind: usize| LimitStatus {
            kind: Some(kind.to_string()),
            set_at: None,
        };
        let limits: Vec<LimitStatus> = (0..2 * MAX_SOURCES).map(limit).collect();
        let plan = |limits: &[LimitStatus]| ClaimPlan {
            limits: limits.into(),
            ..ClaimPlan::default()
        };
        let mut sources = Sources::default();
        for source in sources.of(&plan(&limits), None) {
            source.note_tokens(Some(Duration::from_mins(1)));
        }
        let again = sources.of(&plan(&limits), None);
        assert_eq!(again.len(), 2 * MAX_SOURCES + 1);
        assert!(again.iter().all(|source| source.lacks_tokens()));
        let fewer = sources.of(&plan(&limits[1..]), None);
        assert!(Arc::ptr_eq(&fewer[0], &again[1]));
        assert!(fewer.iter().all(|source| !source.lacks_tokens()));
    }
}
