//! Holds a set of handlers that several workers of a program can share.

use std::fmt;
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
}

impl Handlers {
    /// Returns an empty set.
    pub fn new() -> Handlers {
        Handlers::default()
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
    pub fn handle_in_transaction<P, F>(mut self, handler: F) -> Handlers
    where
        P: Payload + 'static,
        F: Fn(&Job<P>, &mut Transaction<'_>) -> Result<(), Failure> + Send + Sync + 'static,
    {
        let handler = Arc::new(handler);
        let register = move |builder: WorkerBuilder| {
            let handler = Arc::clone(&handler);
            builder.handle_in_transaction(move |job: &Job<P>, transaction: &mut Transaction<'_>| {
                handler(job, transaction)
            })
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

    /// Keeps only the handlers of these kinds.
    #[must_use]
    pub fn only(mut self, kinds: &[impl AsRef<str>]) -> Handlers {
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
        all.fold(self, |builder, (_, register)| register(builder))
    }
}

impl fmt::Debug for Handlers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.kinds()).finish()
    }
}
