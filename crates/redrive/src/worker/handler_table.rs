//! Finds the handler of a kind.

use std::collections::HashMap;
use std::sync::Arc;

use crate::worker::batch_handler::BatchHandler;
use crate::worker::gathering::BatchRule;
use crate::worker::handlers::{Handler, HandlerOptions};

/// The handlers of a worker.
#[derive(Clone, Default)]
pub(crate) struct HandlerTable {
    by_kind: HashMap<String, Handler>,
    batches: HashMap<String, BatchHandler>,
    any: Option<Handler>,
}

impl HandlerTable {
    /// Adds the handler of a kind. Returns `false` if there was one.
    pub(crate) fn add(&mut self, kind: &str, handler: Handler) -> bool {
        let is_new = !self.batches.contains_key(kind);
        self.by_kind.insert(kind.to_owned(), handler).is_none() && is_new
    }

    /// Adds the handler of the batches of a kind. Returns `false` if there was one.
    pub(crate) fn add_batch(&mut self, kind: &str, handler: BatchHandler) -> bool {
        let is_new = !self.by_kind.contains_key(kind);
        self.batches.insert(kind.to_owned(), handler).is_none() && is_new
    }

    /// Sets the handler of all other kinds. Returns `false` if there was one.
    pub(crate) fn add_any(&mut self, handler: Handler) -> bool {
        self.any.replace(handler).is_none()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.by_kind.is_empty() && self.batches.is_empty() && self.any.is_none()
    }

    /// The handler of single jobs of a kind. The jobs of a batch never ask.
    pub(crate) fn of(&self, kind: &str) -> Option<&Handler> {
        self.by_kind.get(kind).or(self.any.as_ref())
    }

    /// The handler of the batches of a kind.
    pub(crate) fn batch(&self, kind: &str) -> Option<&BatchHandler> {
        self.batches.get(kind)
    }

    /// The rules of the batches, by kind.
    pub(crate) fn rules(&self) -> impl Iterator<Item = (&str, &BatchRule)> {
        let handlers = self.batches.iter();
        handlers.map(|(kind, handler)| (kind.as_str(), &handler.rule))
    }

    /// Whether all handlers are those of batches.
    pub(crate) fn is_batches_only(&self) -> bool {
        self.by_kind.is_empty() && self.any.is_none()
    }

    /// The kinds to claim. `None`: all.
    pub(crate) fn kinds(&self) -> Option<Arc<[String]>> {
        match self.any {
            Some(_) => None,
            None => {
                let kinds = self.by_kind.keys().chain(self.batches.keys());
                let mut kinds: Vec<String> = kinds.cloned().collect();
                kinds.sort_unstable();
                Some(kinds.into())
            }
        }
    }

    /// The kinds whose jobs need their own lease, because the handler's transaction ends it.
    pub(crate) fn kinds_in_transactions(&self) -> Arc<[String]> {
        let with = self
            .by_kind
            .iter()
            .filter(|(_, handler)| handler.is_in_transaction());
        with.map(|(kind, _)| kind.clone()).collect()
    }

    /// The kinds whose jobs do not run one after the other in a slot: those of batches and those in transactions.
    pub(crate) fn single_kinds(&self) -> Arc<[String]> {
        let in_transactions = self.kinds_in_transactions();
        let kinds = in_transactions.iter().chain(self.batches.keys());
        kinds.cloned().collect()
    }

    /// The dependencies by kind.
    pub(crate) fn dependencies(&self) -> HashMap<String, String> {
        let single = self
            .by_kind
            .iter()
            .map(|(kind, it)| (kind, &**it.options()));
        let batches = self.batches.iter().map(|(kind, it)| (kind, &*it.options));
        let with = single.chain(batches).filter_map(|(kind, options)| {
            let dependency = options.dependency.clone()?;
            Some((kind.clone(), dependency))
        });
        with.collect()
    }

    /// The options of all handlers, for the check at start.
    pub(crate) fn options(&self) -> impl Iterator<Item = &HandlerOptions> {
        let single = self
            .by_kind
            .values()
            .chain(&self.any)
            .map(|handler| &**handler.options());
        let batches = self.batches.values().map(|handler| &*handler.options);
        single.chain(batches)
    }
}
