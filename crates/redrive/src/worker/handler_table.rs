//! Finds the handler of a kind.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use crate::worker::batch::BatchOptions;
use crate::worker::handlers::{BatchCall, Call, Handler, HandlerOptions};

/// The kind that a handler handles. `None`: every kind without its own.
pub(crate) type Handles = Option<String>;

/// The handlers of a worker.
#[derive(Clone, Default)]
pub(crate) struct HandlerTable {
    by_kind: BTreeMap<String, Handler>,
    any: Option<Handler>,
}

impl HandlerTable {
    /// Adds a handler. Returns `false` if there was one.
    pub(crate) fn add(&mut self, handles: Option<&str>, handler: Handler) -> bool {
        let replaced = match handles {
            Some(kind) => self.by_kind.insert(kind.to_owned(), handler),
            None => self.any.replace(handler),
        };
        replaced.is_none()
    }

    /// Finds a handler to change it.
    pub(crate) fn get_mut(&mut self, handles: Option<&str>) -> Option<&mut Handler> {
        match handles {
            Some(kind) => self.by_kind.get_mut(kind),
            None => self.any.as_mut(),
        }
    }

    pub(crate) fn entries(&self) -> impl Iterator<Item = (Option<&str>, &Handler)> {
        let by_kind = self.by_kind.iter();
        let by_kind = by_kind.map(|(kind, handler)| (Some(&**kind), handler));
        by_kind.chain(self.any.iter().map(|handler| (None, handler)))
    }

    /// Keeps the handlers of these kinds. That of any kind becomes the one of each that has no other.
    /// Returns the kinds without a handler.
    pub(crate) fn retain(&mut self, kinds: &[&str]) -> Vec<String> {
        self.by_kind.retain(|kind, _| kinds.contains(&&**kind));
        let any = self.any.take();
        let without = kinds
            .iter()
            .filter(|kind| !self.by_kind.contains_key(**kind));
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

    /// The kinds with a handler of their own, in alphabetical order.
    pub(crate) fn own_kinds(&self) -> impl Iterator<Item = &str> {
        self.by_kind.keys().map(String::as_str)
    }

    /// The handler of every kind without its own.
    pub(crate) fn any(&self) -> Option<&Handler> {
        self.any.as_ref()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.by_kind.is_empty() && self.any.is_none()
    }

    /// The handler of a kind.
    pub(crate) fn of(&self, kind: &str) -> Option<&Handler> {
        self.by_kind.get(kind).or(self.any.as_ref())
    }

    /// How the batches of a kind run. `None`: its jobs run singly.
    pub(crate) fn batch(&self, kind: &str) -> Option<&BatchCall> {
        self.by_kind.get(kind).and_then(Handler::batch)
    }

    /// The rules of the batches, by kind.
    pub(crate) fn rules(&self) -> impl Iterator<Item = (&str, &BatchOptions)> {
        let handlers = self.by_kind.iter();
        handlers.filter_map(|(kind, handler)| Some((kind.as_str(), &handler.batch()?.rule)))
    }

    /// The size of the largest batches. `None`: other handlers than those of batches.
    pub(crate) fn only_batches_of(&self) -> Option<usize> {
        let mut entries = self.entries();
        let is_only = entries.all(|(_, handler)| handler.batch().is_some());
        let sizes = self.rules().map(|(_, rule)| rule.size);
        sizes.max().filter(|_| is_only)
    }

    /// The kinds to claim. `None`: all.
    pub(crate) fn kinds(&self) -> Option<Arc<[String]>> {
        match self.any {
            Some(_) => None,
            None => Some(self.by_kind.keys().cloned().collect()),
        }
    }

    /// The kinds whose jobs need their own lease, because the handler's transaction ends it.
    pub(crate) fn kinds_in_transactions(&self) -> Arc<[String]> {
        self.kinds_called(|call| matches!(call, Call::InTransaction(_)))
    }

    /// The kinds whose jobs do not run one after the other in a slot: those of batches and those in transactions.
    pub(crate) fn single_kinds(&self) -> Arc<[String]> {
        self.kinds_called(|call| !matches!(call, Call::Plain(_)))
    }

    fn kinds_called(&self, is_so: impl Fn(&Call) -> bool) -> Arc<[String]> {
        let with = self.by_kind.iter().filter(|(_, it)| is_so(&it.call));
        with.map(|(kind, _)| kind.clone()).collect()
    }

    /// The dependencies by kind.
    pub(crate) fn dependencies(&self) -> HashMap<String, String> {
        let with = self.by_kind.iter().filter_map(|(kind, handler)| {
            let dependency = handler.options.dependency.clone()?;
            Some((kind.clone(), dependency))
        });
        with.collect()
    }

    /// The options of all handlers, for the check at start.
    pub(crate) fn options(&self) -> impl Iterator<Item = &HandlerOptions> {
        self.entries().map(|(_, handler)| &*handler.options)
    }
}
