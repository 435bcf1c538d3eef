//! Where some claims look for jobs: those of a queue, those under a rate limit, and probes.

use std::sync::Arc;

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
}

impl Source {
    pub(crate) fn new(kinds: Option<Arc<[String]>>, except: &[String]) -> Source {
        Source {
            kinds,
            except: (!except.is_empty()).then(|| except.into()),
            search: Arc::new(Mutex::new(Search::new())),
        }
    }

    /// Whether it looks for exactly these kinds.
    pub(crate) fn is_for(&self, kinds: Option<&[String]>, except: &[String]) -> bool {
        self.kinds.as_deref() == kinds && self.except.as_deref().unwrap_or_default() == except
    }

    /// Sets the kinds not to claim.
    pub(crate) fn leave(&mut self, except: &[String]) {
        let before = self.except.as_deref().unwrap_or_default();
        if before == except {
            return;
        }
        // Jobs of a kind that was excluded may lie below the marks.
        if before.iter().any(|kind| !except.contains(kind)) {
            self.search().restart();
        }
        self.except = (!except.is_empty()).then(|| except.into());
    }

    pub(crate) fn search(&self) -> MutexGuard<'_, Search> {
        lock(&self.search)
    }
}
