//! Holds a set of handlers that several workers of a program can share.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use serde_json::value::RawValue;

use crate::job::failure::Failure;
use crate::job::job::Job;
use crate::job::name;
use crate::job::payload::Payload;
use crate::sync::Transaction;
use crate::worker::batch::{Batch, BatchOptions};
use crate::worker::batch_handler;
use crate::worker::handler_table::HandlerTable;
use crate::worker::handlers::{self, Handler, HandlerOptions};

/// A set of handlers that several workers can share.
///
/// Use [`WorkerBuilder::handle`](crate::WorkerBuilder::handle) for a single worker. `Handlers` are for
/// programs that start workers in several places, such as a command-line program with a `work`
/// subcommand.
#[derive(Clone, Default)]
pub struct Handlers {
    pub(crate) table: HandlerTable,
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
    /// Pass it to [`WorkerBuilder::handlers`](crate::WorkerBuilder::handlers) as any set.
    pub fn with<S: Send + Sync + 'static>(state: S) -> StatefulHandlers<S> {
        StatefulHandlers {
            state: Arc::new(state),
            handlers: Handlers::new(),
        }
    }

    /// Adds a handler of a payload's kind.
    #[must_use]
    pub fn handle<P, F>(self, handler: F) -> Handlers
    where
        P: Payload + 'static,
        F: Fn(&Job<P>) -> Result<(), Failure> + Send + Sync + 'static,
    {
        self.handle_with(HandlerOptions::new(), handler)
    }

    /// Adds a handler with its own options, such as a backoff, a deadline or a dependency.
    #[must_use]
    pub fn handle_with<P, F>(self, options: HandlerOptions, handler: F) -> Handlers
    where
        P: Payload + 'static,
        F: Fn(&Job<P>) -> Result<(), Failure> + Send + Sync + 'static,
    {
        self.add(P::KIND, handlers::typed(options, handler))
    }

    /// Adds a handler that runs in the transaction that completes the job; see
    /// [`WorkerBuilder::handle_in_transaction`](crate::WorkerBuilder::handle_in_transaction).
    #[must_use]
    pub fn handle_in_transaction<P, F>(self, handler: F) -> Handlers
    where
        P: Payload + 'static,
        F: Fn(&Job<P>, &mut Transaction<'_>) -> Result<(), Failure> + Send + Sync + 'static,
    {
        self.handle_in_transaction_with(HandlerOptions::new(), handler)
    }

    /// Adds such a handler with its own options.
    #[must_use]
    pub fn handle_in_transaction_with<P, F>(self, options: HandlerOptions, handler: F) -> Handlers
    where
        P: Payload + 'static,
        F: Fn(&Job<P>, &mut Transaction<'_>) -> Result<(), Failure> + Send + Sync + 'static,
    {
        self.add(P::KIND, handlers::in_transaction(options, handler))
    }

    /// Adds a handler of batches; see
    /// [`WorkerBuilder::handle_batch`](crate::WorkerBuilder::handle_batch).
    #[must_use]
    pub fn handle_batch<P, F>(mut self, options: BatchOptions, handler: F) -> Handlers
    where
        P: Payload + 'static,
        F: Fn(&Batch<P>) -> Result<(), Failure> + Send + Sync + 'static,
    {
        let handler = batch_handler::batch(options, handler);
        let is_new = self.table.add_batch(P::KIND, handler);
        self.check(P::KIND, is_new);
        self
    }

    /// Adds a handler for a kind known only at run time. It receives the undecoded payload.
    #[must_use]
    pub fn handle_kind<F>(self, kind: &str, handler: F) -> Handlers
    where
        F: Fn(&Job<Box<RawValue>>) -> Result<(), Failure> + Send + Sync + 'static,
    {
        self.handle_kind_with(kind, HandlerOptions::new(), handler)
    }

    /// Adds such a handler with its own options.
    #[must_use]
    pub fn handle_kind_with<F>(self, kind: &str, options: HandlerOptions, handler: F) -> Handlers
    where
        F: Fn(&Job<Box<RawValue>>) -> Result<(), Failure> + Send + Sync + 'static,
    {
        self.add(kind, handlers::raw(options, handler))
    }

    /// Sets the handler of every kind without its own. It receives the undecoded payload.
    #[must_use]
    pub fn handle_any<F>(self, handler: F) -> Handlers
    where
        F: Fn(&Job<Box<RawValue>>) -> Result<(), Failure> + Send + Sync + 'static,
    {
        self.handle_any_with(HandlerOptions::new(), handler)
    }

    /// Sets such a handler with its own options.
    #[must_use]
    pub fn handle_any_with<F>(mut self, options: HandlerOptions, handler: F) -> Handlers
    where
        F: Fn(&Job<Box<RawValue>>) -> Result<(), Failure> + Send + Sync + 'static,
    {
        if !self.table.add_any(handlers::raw(options, handler)) {
            self.reject(two_handlers("*"));
        }
        self
    }

    /// Returns whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.table.is_empty()
    }

    /// Returns the kinds with a handler of their own, in alphabetical order.
    pub fn kinds(&self) -> impl Iterator<Item = &str> {
        self.table.own_kinds().into_iter()
    }

    /// Keeps only the handlers of these kinds. A worker does not start if one of them has none.
    #[must_use]
    pub fn only(mut self, kinds: &[impl AsRef<str>]) -> Handlers {
        let kinds: Vec<&str> = kinds.iter().map(AsRef::as_ref).collect();
        for missing in self.table.retain(&kinds) {
            self.reject(format!("there is no handler of kind `{missing}`"));
        }
        self
    }

    /// Adds the handlers of another set.
    pub(crate) fn join(&mut self, other: &Handlers) {
        if let Some(problem) = &other.problem {
            self.reject(problem.clone());
        }
        if let Some(kind) = self.table.join(&other.table) {
            self.reject(two_handlers(&kind));
        }
    }

    fn add(mut self, kind: &str, handler: Handler) -> Handlers {
        let is_new = self.table.add(kind, handler);
        self.check(kind, is_new);
        self
    }

    /// Checks the kind of a handler.
    fn check(&mut self, kind: &str, is_new: bool) {
        if let Err(error) = name::check("kind", kind) {
            self.reject(error.to_string());
        }
        if !is_new {
            self.reject(two_handlers(kind));
        }
    }

    fn reject(&mut self, problem: String) {
        self.problem.get_or_insert(problem);
    }
}

/// `*`: any kind.
fn two_handlers(kind: &str) -> String {
    match kind {
        "*" => "handle_any was called twice".to_owned(),
        kind => format!("kind `{kind}` has two handlers"),
    }
}

/// A set of handlers that share a state; see [`Handlers::with`].
pub struct StatefulHandlers<S> {
    state: Arc<S>,
    handlers: Handlers,
}

impl<S: Send + Sync + 'static> StatefulHandlers<S> {
    /// Adds a handler of a payload's kind.
    #[must_use]
    pub fn handle<P, F>(self, handler: F) -> StatefulHandlers<S>
    where
        P: Payload + 'static,
        F: Fn(&S, &Job<P>) -> Result<(), Failure> + Send + Sync + 'static,
    {
        self.handle_with(HandlerOptions::new(), handler)
    }

    /// Adds a handler with its own options.
    #[must_use]
    pub fn handle_with<P, F>(self, options: HandlerOptions, handler: F) -> StatefulHandlers<S>
    where
        P: Payload + 'static,
        F: Fn(&S, &Job<P>) -> Result<(), Failure> + Send + Sync + 'static,
    {
        self.add(|handlers, state| {
            handlers.handle_with(options, move |job: &Job<P>| handler(&state, job))
        })
    }

    /// Adds a handler that runs in the transaction that completes the job.
    #[must_use]
    pub fn handle_in_transaction<P, F>(self, handler: F) -> StatefulHandlers<S>
    where
        P: Payload + 'static,
        F: Fn(&S, &Job<P>, &mut Transaction<'_>) -> Result<(), Failure> + Send + Sync + 'static,
    {
        self.handle_in_transaction_with(HandlerOptions::new(), handler)
    }

    /// Adds such a handler with its own options.
    #[must_use]
    pub fn handle_in_transaction_with<P, F>(
        self,
        options: HandlerOptions,
        handler: F,
    ) -> StatefulHandlers<S>
    where
        P: Payload + 'static,
        F: Fn(&S, &Job<P>, &mut Transaction<'_>) -> Result<(), Failure> + Send + Sync + 'static,
    {
        self.add(|handlers, state| {
            handlers.handle_in_transaction_with(
                options,
                move |job: &Job<P>, transaction: &mut Transaction<'_>| {
                    handler(&state, job, transaction)
                },
            )
        })
    }

    /// Adds a handler of batches.
    #[must_use]
    pub fn handle_batch<P, F>(self, options: BatchOptions, handler: F) -> StatefulHandlers<S>
    where
        P: Payload + 'static,
        F: Fn(&S, &Batch<P>) -> Result<(), Failure> + Send + Sync + 'static,
    {
        self.add(|handlers, state| {
            handlers.handle_batch(options, move |batch: &Batch<P>| handler(&state, batch))
        })
    }

    fn add(mut self, add: impl FnOnce(Handlers, Arc<S>) -> Handlers) -> StatefulHandlers<S> {
        self.handlers = add(self.handlers, Arc::clone(&self.state));
        self
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
