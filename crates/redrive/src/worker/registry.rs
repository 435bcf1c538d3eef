//! Holds a set of handlers that several workers of a program can share.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use crate::sync::Transaction;

use crate::job::failure::Failure;
use crate::job::job::Job;
use crate::job::payload::Payload;
use crate::worker::{Batch, BatchOptions, HandlerOptions, WorkerBuilder};

type Register = Arc<dyn Fn(WorkerBuilder) -> WorkerBuilder + Send + Sync>;

/// A set of handlers that several workers can share.
///
/// Use [`WorkerBuilder::handle`] for a single worker. `Handlers` are for programs that start
/// workers in several places, such as a command-line program with a `work` subcommand.
#[derive(Clone, Default)]
pub struct Handlers {
    all: Vec<(&'static str, Register)>,
    /// Kinds that [`only`](Handlers::only) did not find.
    missing: Vec<String>,
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
    /// Pass it to [`WorkerBuilder::handlers`] as any set.
    pub fn with<S: Send + Sync + 'static>(state: S) -> StatefulHandlers<S> {
        StatefulHandlers {
            state: Arc::new(state),
            handlers: Handlers::new(),
        }
    }

    /// Adds a handler; see [`WorkerBuilder::handle`].
    #[must_use]
    pub fn handle<P, F>(self, handler: F) -> Handlers
    where
        P: Payload + 'static,
        F: Fn(&Job<P>) -> Result<(), Failure> + Send + Sync + 'static,
    {
        self.handle_with(HandlerOptions::new(), handler)
    }

    /// Adds a handler with options; see [`WorkerBuilder::handle_with`].
    #[must_use]
    pub fn handle_with<P, F>(mut self, options: HandlerOptions, handler: F) -> Handlers
    where
        P: Payload + 'static,
        F: Fn(&Job<P>) -> Result<(), Failure> + Send + Sync + 'static,
    {
        let handler = Arc::new(handler);
        let register = move |builder: WorkerBuilder| {
            let handler = Arc::clone(&handler);
            builder.handle_with(options.clone(), move |job: &Job<P>| handler(job))
        };
        self.all.push((P::KIND, Arc::new(register)));
        self
    }

    /// Adds a transactional handler; see [`WorkerBuilder::handle_in_transaction`].
    #[must_use]
    pub fn handle_in_transaction<P, F>(self, handler: F) -> Handlers
    where
        P: Payload + 'static,
        F: Fn(&Job<P>, &mut Transaction<'_>) -> Result<(), Failure> + Send + Sync + 'static,
    {
        self.handle_in_transaction_with(HandlerOptions::new(), handler)
    }

    /// Adds a transactional handler with options; see
    /// [`WorkerBuilder::handle_in_transaction_with`].
    #[must_use]
    pub fn handle_in_transaction_with<P, F>(
        mut self,
        options: HandlerOptions,
        handler: F,
    ) -> Handlers
    where
        P: Payload + 'static,
        F: Fn(&Job<P>, &mut Transaction<'_>) -> Result<(), Failure> + Send + Sync + 'static,
    {
        let handler = Arc::new(handler);
        let register = move |builder: WorkerBuilder| {
            let handler = Arc::clone(&handler);
            builder.handle_in_transaction_with(
                options.clone(),
                move |job: &Job<P>, transaction: &mut Transaction<'_>| handler(job, transaction),
            )
        };
        self.all.push((P::KIND, Arc::new(register)));
        self
    }

    /// Adds a handler of batches; see [`WorkerBuilder::handle_batch`].
    #[must_use]
    pub fn handle_batch<P, F>(mut self, options: BatchOptions, handler: F) -> Handlers
    where
        P: Payload + 'static,
        F: Fn(&Batch<P>) -> Result<(), Failure> + Send + Sync + 'static,
    {
        let handler = Arc::new(handler);
        let register = move |builder: WorkerBuilder| {
            let handler = Arc::clone(&handler);
            builder.handle_batch(options.clone(), move |batch: &Batch<P>| handler(batch))
        };
        self.all.push((P::KIND, Arc::new(register)));
        self
    }

    /// Returns whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Returns the handled kinds, in the order of registration.
    pub fn kinds(&self) -> impl Iterator<Item = &'static str> {
        self.all.iter().map(|(kind, _)| *kind)
    }

    /// Keeps only the handlers of these kinds. A worker does not start if one of them has none.
    #[must_use]
    pub fn only(mut self, kinds: &[impl AsRef<str>]) -> Handlers {
        let wanted = kinds.iter().map(AsRef::as_ref);
        let missing = wanted.filter(|wanted| !self.kinds().any(|kind| kind == *wanted));
        self.missing = missing.map(str::to_owned).collect();
        self.all
            .retain(|(kind, _)| kinds.iter().any(|wanted| wanted.as_ref() == *kind));
        self
    }
}

impl WorkerBuilder {
    /// Registers all handlers of a set.
    #[must_use]
    pub fn handlers(self, handlers: &Handlers) -> WorkerBuilder {
        let all = handlers.all.iter();
        let mut builder = all.fold(self, |builder, (_, register)| register(builder));
        for kind in &handlers.missing {
            builder.reject(&format!("there is no handler of kind `{kind}`"));
        }
        builder
    }
}

/// A set of handlers that share a state; see [`Handlers::with`].
pub struct StatefulHandlers<S> {
    state: Arc<S>,
    handlers: Handlers,
}

impl<S: Send + Sync + 'static> StatefulHandlers<S> {
    /// Adds a handler; see [`WorkerBuilder::handle`].
    #[must_use]
    pub fn handle<P, F>(self, handler: F) -> StatefulHandlers<S>
    where
        P: Payload + 'static,
        F: Fn(&S, &Job<P>) -> Result<(), Failure> + Send + Sync + 'static,
    {
        self.handle_with(HandlerOptions::new(), handler)
    }

    /// Adds a handler with options; see [`WorkerBuilder::handle_with`].
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

    /// Adds a transactional handler; see [`WorkerBuilder::handle_in_transaction`].
    #[must_use]
    pub fn handle_in_transaction<P, F>(self, handler: F) -> StatefulHandlers<S>
    where
        P: Payload + 'static,
        F: Fn(&S, &Job<P>, &mut Transaction<'_>) -> Result<(), Failure> + Send + Sync + 'static,
    {
        self.handle_in_transaction_with(HandlerOptions::new(), handler)
    }

    /// Adds a transactional handler with options; see
    /// [`WorkerBuilder::handle_in_transaction_with`].
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

    /// Adds a handler of batches; see [`WorkerBuilder::handle_batch`].
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
