//! Handlers as a value: registered once, given to every worker that a program starts.

use std::fmt;
use std::sync::Arc;

use postgres::Transaction;

use crate::failure::Failure;
use crate::job::Job;
use crate::payload::Payload;
use crate::worker::{HandlerOptions, WorkerBuilder};

type Register = Arc<dyn Fn(WorkerBuilder) -> WorkerBuilder + Send + Sync>;

/// The handlers of a program, to be given to its workers.
///
/// For a program with one worker, [`WorkerBuilder::handle`] is all it takes. These are for one that
/// starts workers from several places, such as a command line of its own.
///
/// ```no_run
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use redrive::{Failure, Handlers, Job, Payload, Queue, Worker};
/// # #[derive(serde::Serialize, serde::Deserialize)]
/// # struct Invoice {}
/// # impl Payload for Invoice { const KIND: &'static str = "invoice"; }
///
/// let handlers = Handlers::new().handle(|invoice: &Job<Invoice>| Ok::<(), Failure>(()));
///
/// let db = redrive::connect(&std::env::var("DATABASE_URL")?)?;
/// let worker = Worker::builder(&Queue::new(&db, "orders")?)
///     .handlers(&handlers)
///     .start()?;
/// # Ok(()) }
/// ```
#[derive(Clone, Default)]
pub struct Handlers {
    all: Vec<(&'static str, Register)>,
}

impl Handlers {
    /// None.
    pub fn new() -> Handlers {
        Handlers::default()
    }

    /// As [`WorkerBuilder::handle`].
    #[must_use]
    pub fn handle<P, F>(self, handler: F) -> Handlers
    where
        P: Payload + 'static,
        F: Fn(&Job<P>) -> Result<(), Failure> + Send + Sync + 'static,
    {
        self.handle_with(HandlerOptions::new(), handler)
    }

    /// As [`WorkerBuilder::handle_with`].
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

    /// As [`WorkerBuilder::handle_in_transaction`].
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

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// The kinds that are handled, in the order of their registration.
    pub fn kinds(&self) -> impl Iterator<Item = &'static str> {
        self.all.iter().map(|(kind, _)| *kind)
    }

    /// Those of these kinds.
    #[must_use]
    pub fn only(mut self, kinds: &[impl AsRef<str>]) -> Handlers {
        self.all
            .retain(|(kind, _)| kinds.iter().any(|wanted| wanted.as_ref() == *kind));
        self
    }
}

impl WorkerBuilder {
    /// Registers all of these handlers.
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
