//! Holds a set of handlers that several workers of a program can share.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use serde_json::value::RawValue;

use crate::job::failure::Failure;
use crate::job::job::Job;
use crate::job::name;
use crate::job::payload::Payload;
use crate::job::setters::setters;
use crate::worker::batch::{Batch, BatchOptions};
use crate::worker::batch_handler;
use crate::worker::form::{Erased, Handles, JobHandler};
use crate::worker::handlers::{self, Call, Handler, HandlerOptions};

/// A set of handlers that several workers can share. A single worker can do with
/// [`WorkerBuilder::handle`](crate::WorkerBuilder::handle).
#[derive(Clone, Default)]
#[must_use]
pub struct Handlers {
    by_kind: BTreeMap<String, Handler>,
    /// The handler of every kind without its own.
    pub(super) any: Option<Handler>,
    latest: Option<Handles>,
    /// What keeps a worker with these handlers from starting.
    pub(crate) problem: Option<String>,
}

impl Handlers {
    /// Returns an empty set.
    pub fn new() -> Handlers {
        Handlers::default()
    }

    /// Returns an empty set of handlers that share a state, such as clients and settings.
    ///
    /// ```
    /// use redrive::{Failure, Handlers, Job, Payload};
    /// # use serde::{Deserialize, Serialize};
    ///
    /// struct App { gateway: String }
    /// # #[derive(Serialize, Deserialize)] struct Charge { order: i64 }
    /// # impl Payload for Charge { const KIND: &'static str = "charge"; }
    ///
    /// fn charge(app: &App, job: &Job<Charge>) -> Result<(), Failure> {
    ///     println!("charging order {} at {}", job.payload().order, app.gateway);
    ///     Ok(())
    /// }
    ///
    /// let app = App { gateway: "https://pay.example".to_owned() };
    /// let handlers = Handlers::with(app).handle(charge);
    /// assert_eq!(handlers.kinds().collect::<Vec<_>>(), ["charge"]);
    /// ```
    ///
    /// A set without the state that a handler takes does not compile:
    ///
    /// ```compile_fail
    /// # use redrive::{Failure, Handlers, Job, Payload};
    /// # use serde::{Deserialize, Serialize};
    /// # #[derive(Serialize, Deserialize)] struct Charge { order: i64 }
    /// # impl Payload for Charge { const KIND: &'static str = "charge"; }
    /// # fn charge(app: &String, job: &Job<Charge>) -> Result<(), Failure> { Ok(()) }
    /// let handlers = Handlers::new().handle(charge);
    /// ```
    pub fn with<S: Send + Sync + 'static>(state: S) -> StatefulHandlers<S> {
        StatefulHandlers {
            state: Arc::new(state),
            handlers: Handlers::new(),
        }
    }

    /// Adds the handler of a payload's kind.
    pub fn handle<Form>(self, handler: impl JobHandler<(), Form>) -> Handlers {
        self.add(handler.erase(&Arc::new(())))
    }

    /// Adds a handler of batches; see
    /// [`WorkerBuilder::handle_batch`](crate::WorkerBuilder::handle_batch).
    pub fn handle_batch<P, F>(self, batches: BatchOptions, handler: F) -> Handlers
    where
        P: Payload + 'static,
        F: Fn(&Batch<P>) -> Result<(), Failure> + Send + Sync + 'static,
    {
        let handler = batch_handler::batch(batches, handler);
        self.add(Erased(Some(P::KIND.to_owned()), handler))
    }

    /// Adds a handler for a kind known only at run time. It receives the undecoded payload.
    pub fn handle_kind<F>(self, kind: &str, handler: F) -> Handlers
    where
        F: Fn(&Job<Box<RawValue>>) -> Result<(), Failure> + Send + Sync + 'static,
    {
        self.add(Erased(Some(kind.to_owned()), handlers::raw(handler)))
    }

    /// Sets the handler of every kind without its own. It receives the undecoded payload.
    pub fn handle_any<F>(self, handler: F) -> Handlers
    where
        F: Fn(&Job<Box<RawValue>>) -> Result<(), Failure> + Send + Sync + 'static,
    {
        self.add(Erased(None, handlers::raw(handler)))
    }

    /// Sets the options of the handler added last. A worker does not start if they do not directly follow one.
    ///
    /// ```
    /// use std::time::Duration;
    /// use redrive::{Handlers, HandlerOptions};
    ///
    /// let handlers = Handlers::new()
    ///     .handle_kind("charge", |_| Ok(()))
    ///     .options(HandlerOptions::new().dependency("gateway"))
    ///     .handle_kind("mail", |_| Ok(()))
    ///     .options(HandlerOptions::new().deadline(Duration::from_secs(20)));
    /// # _ = handlers;
    /// ```
    pub fn options(mut self, options: HandlerOptions) -> Handlers {
        let latest = self.latest.take().and_then(|latest| match latest {
            Some(kind) => self.by_kind.get_mut(&kind),
            None => self.any.as_mut(),
        });
        match latest {
            Some(handler) => handler.options = Arc::new(options.or(&handler.options)),
            None => self.reject("options follow no handler, or other options".to_owned()),
        }
        self
    }

    /// Returns whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.by_kind.is_empty() && self.any.is_none()
    }

    /// Returns the kinds with a handler of their own, in alphabetical order.
    pub fn kinds(&self) -> impl Iterator<Item = &str> {
        self.by_kind.keys().map(String::as_str)
    }

    /// Keeps only the handlers of these kinds. A worker does not start if one of them has none.
    pub fn only(mut self, kinds: &[impl AsRef<str>]) -> Handlers {
        let kinds: Vec<&str> = kinds.iter().map(AsRef::as_ref).collect();
        self.by_kind.retain(|kind, _| kinds.contains(&&**kind));
        let any = self.any.take();
        for kind in kinds {
            // That of any kind becomes the one of each that has no other.
            match (self.by_kind.contains_key(kind), &any) {
                (true, _) => {}
                (false, Some(any)) => self.insert(Some(kind), any.clone()),
                (false, None) => self.reject(format!("there is no handler of kind `{kind}`")),
            }
        }
        self
    }

    /// Adds the handlers of another set.
    pub(crate) fn join(&mut self, other: &Handlers) {
        if let Some(problem) = &other.problem {
            self.reject(problem.clone());
        }
        self.latest = None;
        for (handles, handler) in other.entries() {
            self.insert(handles, handler.clone());
        }
    }

    fn add(mut self, Erased(handles, handler): Erased) -> Handlers {
        if let Some(kind) = &handles
            && let Err(error) = name::check("kind", kind)
        {
            self.reject(error.to_string());
        }
        self.insert(handles.as_deref(), handler);
        self.latest = Some(handles);
        self
    }

    fn insert(&mut self, handles: Option<&str>, handler: Handler) {
        let replaced = match handles {
            Some(kind) => self.by_kind.insert(kind.to_owned(), handler),
            None => self.any.replace(handler),
        };
        if replaced.is_some() {
            self.reject(match handles {
                None => "handle_any was called twice".to_owned(),
                Some(kind) => format!("kind `{kind}` has two handlers"),
            });
        }
    }

    fn reject(&mut self, problem: String) {
        self.problem.get_or_insert(problem);
    }
}

/// What the threads of a worker ask.
impl Handlers {
    fn entries(&self) -> impl Iterator<Item = (Option<&str>, &Handler)> {
        let by_kind = self.by_kind.iter();
        let by_kind = by_kind.map(|(kind, handler)| (Some(&**kind), handler));
        by_kind.chain(self.any.iter().map(|handler| (None, handler)))
    }

    /// The handler of a kind.
    pub(crate) fn of(&self, kind: &str) -> Option<&Handler> {
        self.by_kind.get(kind).or(self.any.as_ref())
    }

    /// The rules of the batches, by kind.
    pub(crate) fn rules(&self) -> impl Iterator<Item = (&str, &BatchOptions)> {
        let handlers = self.by_kind.iter();
        handlers.filter_map(|(kind, handler)| Some((kind.as_str(), handler.batches.as_ref()?)))
    }

    /// The size of the largest batches. `None`: other handlers than those of batches.
    pub(crate) fn only_batches_of(&self) -> Option<usize> {
        let mut entries = self.entries();
        let is_only = entries.all(|(_, handler)| handler.batches.is_some());
        let sizes = self.rules().map(|(_, rule)| rule.size);
        sizes.max().filter(|_| is_only)
    }

    /// The kinds to claim. `None`: all.
    pub(crate) fn claimed_kinds(&self) -> Option<Arc<[String]>> {
        match self.any {
            Some(_) => None,
            None => Some(self.by_kind.keys().cloned().collect()),
        }
    }

    /// The kinds whose jobs need their own lease, because the handler's transaction ends it.
    pub(crate) fn kinds_in_transactions(&self) -> Arc<[String]> {
        let all = self.by_kind.iter();
        let with = all.filter(|(_, it)| matches!(it.call, Call::InTransaction(_)));
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
    pub(crate) fn all_options(&self) -> impl Iterator<Item = &HandlerOptions> {
        self.entries().map(|(_, handler)| &*handler.options)
    }
}

/// A set of handlers that share a state; see [`Handlers::with`].
#[must_use]
pub struct StatefulHandlers<S> {
    state: Arc<S>,
    handlers: Handlers,
}

impl<S: Send + Sync + 'static> StatefulHandlers<S> {
    /// Adds the handler of a payload's kind.
    pub fn handle<Form>(mut self, handler: impl JobHandler<S, Form>) -> StatefulHandlers<S> {
        self.handlers = self.handlers.add(handler.erase(&self.state));
        self
    }

    /// Adds a handler of batches.
    pub fn handle_batch<P, F>(mut self, batches: BatchOptions, handler: F) -> StatefulHandlers<S>
    where
        P: Payload + 'static,
        F: Fn(&S, &Batch<P>) -> Result<(), Failure> + Send + Sync + 'static,
    {
        let state = Arc::clone(&self.state);
        let handler = move |batch: &Batch<P>| handler(&state, batch);
        self.handlers = self.handlers.handle_batch(batches, handler);
        self
    }

    setters! {
        /// Sets the options of the handler added last; see [`Handlers::options`].
        pub fn options(self, options: HandlerOptions) => self.handlers = self.handlers.options(options);
    }
}

impl<S> Deref for StatefulHandlers<S> {
    type Target = Handlers;

    fn deref(&self) -> &Handlers {
        &self.handlers
    }
}

impl<S> From<StatefulHandlers<S>> for Handlers {
    fn from(handlers: StatefulHandlers<S>) -> Handlers {
        handlers.handlers
    }
}

impl<S> fmt::Debug for StatefulHandlers<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.handlers.fmt(f)
    }
}

impl fmt::Debug for Handlers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.kinds()).finish()
    }
}
