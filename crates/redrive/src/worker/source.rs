//! Where some claims look for jobs: those of a queue, those under a rate limit, and probes.

use std::sync::Arc;

use crate::pipeline::claim::group_walk::GroupWalk;
use crate::pipeline::claim::search::Search;
use crate::sync::{Mutex, MutexGuard};
use crate::worker::latch::lock;

/// The kinds that some claims look for, and where they search. A clone shares the search.
#[derive(Clone)]
pub(crate) struct Source {
    /// The kinds to claim. `None`: all.
    pub(crate) kinds: Option<Arc<[String]>>,
    /// The kinds not to claim.
    pub(crate) except: Option<Arc<[String]>>,
    search: Arc<Mutex<Search>>,
    walk: Arc<Mutex<GroupWalk>>,
}

impl Source {
    /// The walk over the groups with such jobs.
    pub(crate) fn walk(&self) -> MutexGuard<'_, GroupWalk> {
        lock(&self.walk)
    }

    pub(crate) fn search(&self) -> MutexGuard<'_, Search> {
        lock(&self.search)
    }
}

/// How many searches a worker remembers of a queue. Handlers may name a dependency for each host.
const MAX_SOURCES: usize = 100;

/// Where claims have looked for jobs of a queue.
#[derive(Default)]
pub(crate) struct Sources(Vec<Source>);

impl Sources {
    /// Returns where to look for jobs of these kinds, `None`: all, except those: where the last claim of the same kinds
    /// did.
    pub(crate) fn of(&mut self, kinds: Option<&[String]>, except: &[String]) -> Source {
        let except = (!except.is_empty()).then_some(except);
        let is_it =
            |known: &&Source| known.kinds.as_deref() == kinds && known.except.as_deref() == except;
        if let Some(known) = self.0.iter().find(is_it) {
            return known.clone();
        }
        // A forgotten search starts again.
        if self.0.len() >= MAX_SOURCES {
            self.0.clear();
        }
        let source = Source {
            kinds: kinds.map(Arc::from),
            except: except.map(Arc::from),
            search: Arc::new(Mutex::new(Search::new())),
            walk: Arc::default(),
        };
        self.0.push(source.clone());
        source
    }
}
