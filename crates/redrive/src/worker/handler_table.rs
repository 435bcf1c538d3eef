//! Finds the handler of a kind.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use crate::worker::batch_handler::BatchHandler;
use crate::worker::gathering::BatchRule;
use crate::worker::handlers::{Call, Handler, HandlerOptions};

/// The handlers of a worker.
#[derive(Clone, Default)]
pub(crate) struct HandlerTable {
    by_kind: BTreeMap<String, Handler>,
    batches: BTreeMap<String, BatchHandler>,
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

    /// Adds the handlers of another table. Returns the first kind that has one in both; `*`: both handle
    /// any kind.
    pub(crate) fn join(&mut self, other: &HandlerTable) -> Option<String> {
        let mut twice = None;
        for (kind, handler) in &other.by_kind {
            if !self.add(kind, handler.clone()) {
                twice.get_or_insert_with(|| kind.clone());
            }
        }
        for (kind, handler) in &other.batches {
            if !self.add_batch(kind, handler.clone()) {
                twice.get_or_insert_with(|| kind.clone());
            }
        }
        if let Some(handler) = &other.any
            && !self.add_any(handler.clone())
        {
            twice.get_or_insert_with(|| "*".to_owned());
        }
        twice
    }

    /// Keeps the handlers of these kinds. That of any kind becomes the one of each that has no other.
    /// Returns the kinds without a handler.
    pub(crate) fn retain(&mut self, kinds: &[&str]) -> Vec<String> {
        self.by_kind.retain(|kind, _| kinds.contains(&&**kind));
        self.batches.retain(|kind, _| kinds.contains(&&**kind));
        let any = self.any.take();
        let without = kinds.iter().filter(|kind| {
            !self.by_kind.contains_key(**kind) && !self.batches.contains_key(**kind)
        });
        let without: Vec<String> = without.map(|kind| (*kind).to_owned()).collect();
        match any {
            None => without,
            Some(any) => {
                let of_any = without.into_iter().map(|kind| (kind, any.clone()));
                self.by_kind.extend(of_any);
                Vec::new()
            }
        }
    }

    /// Takes the handlers of kinds of which fewer jobs may run at a time than there are slots, each with its limit.
    pub(crate) fn split_off_limited(&mut self, slots: usize) -> Vec<(String, usize, HandlerTable)> {
        let limit = |options: &HandlerOptions| options.concurrency.filter(|most| *most < slots);
        let single = self
            .by_kind
            .extract_if(.., |_, it| limit(&it.options).is_some());
        let mut split: Vec<_> = single
            .map(|(kind, handler)| {
                let mut table = HandlerTable::default();
                let most = limit(&handler.options).unwrap_or(slots);
                table.add(&kind, handler);
                (kind, most, table)
            })
            .collect();
        let batches = self
            .batches
            .extract_if(.., |_, it| limit(&it.options).is_some());
        split.extend(batches.map(|(kind, handler)| {
            let mut table = HandlerTable::default();
            let most = limit(&handler.options).unwrap_or(slots);
            table.add_batch(&kind, handler);
            (kind, most, table)
        }));
        split
    }

    /// The kinds with a handler of their own, in alphabetical order.
    pub(crate) fn own_kinds(&self) -> Vec<&str> {
        let all = self.by_kind.keys().chain(self.batches.keys());
        let mut kinds: Vec<&str> = all.map(String::as_str).collect();
        kinds.sort_unstable();
        kinds
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
            None => Some(self.own_kinds().into_iter().map(str::to_owned).collect()),
        }
    }

    /// The kinds whose jobs need their own lease, because the handler's transaction ends it.
    pub(crate) fn kinds_in_transactions(&self) -> Arc<[String]> {
        let with = self
            .by_kind
            .iter()
            .filter(|(_, handler)| matches!(handler.call, Call::InTransaction(_)));
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
        let single = self.by_kind.iter().map(|(kind, it)| (kind, &*it.options));
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
            .map(|handler| &*handler.options);
        let batches = self.batches.values().map(|handler| &*handler.options);
        single.chain(batches)
    }
}
