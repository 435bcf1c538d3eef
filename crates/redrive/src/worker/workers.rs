//! Configures a worker for several queues.

use std::fmt;

use crate::db::database::Database;
use crate::error::{Error, Result};
use crate::pipeline::queue::Queue;
use crate::sync::thread;
use crate::worker::Worker;
use crate::worker::builder::{WorkerBuilder, start};
use crate::worker::registry::Handlers;

/// The workers of several queues in one process, which start, stop and fail together.
///
/// ```
/// use std::time::Duration;
///
/// use redrive::{Handlers, Job, NewJob, Payload, Workers};
/// # use serde::{Deserialize, Serialize};
///
/// #[derive(Serialize, Deserialize, Payload)]
/// #[payload(kind = "charge", queue = "payments")]
/// struct Charge { order: i64 }
///
/// #[derive(Serialize, Deserialize, Payload)]
/// #[payload(kind = "receipt", queue = "mails")]
/// struct Receipt { order: i64 }
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let db = redrive::Database::builder(&std::env::var("DATABASE_URL")?).connections(15).open()?;
/// # db.migrate()?;
/// let handlers = Handlers::new()
///     .handle(|job: &Job<Charge>| Ok(job.then(NewJob::new(&Receipt { order: job.payload().order })?)?))
///     .handle(|_: &Job<Receipt>| Ok(()));
/// db.enqueue(&Charge { order: 42 })?;
///
/// let workers = Workers::builder(&db)
///     .queue("payments", 4, &handlers) // with 4 slots
///     .queue("mails", 2, &handlers)
///     .each(|worker| worker.version(env!("CARGO_PKG_VERSION")))
///     .start()?;
/// // A service calls `run_until_signal` instead.
/// workers.drain(Duration::from_secs(30))?;
/// assert_eq!(workers.stop(Duration::from_secs(10))?.stats.done, 2);
/// # Ok(()) }
/// ```
///
/// Each queue has its own slots, so one whose jobs hang delays no other. All share the other threads and the
/// [connections](crate::limits::WORKER_CONNECTIONS) of one worker.
#[derive(Debug)]
#[non_exhaustive]
pub struct Workers;

impl Workers {
    /// Returns a builder of a worker for several queues of a database.
    pub fn builder(db: &Database) -> WorkersBuilder {
        WorkersBuilder {
            db: db.clone(),
            queues: Vec::new(),
            pool: thread::available_parallelism().map_or(4, usize::from),
            first_error: None,
        }
    }
}

/// Configures workers; see [`Workers::builder`].
#[must_use]
pub struct WorkersBuilder {
    db: Database,
    queues: Vec<WorkerBuilder>,
    pool: usize,
    first_error: Option<Error>,
}

impl WorkersBuilder {
    /// Adds a queue with this many slots of its own.
    pub fn queue(self, name: &str, slots: usize, handlers: &Handlers) -> WorkersBuilder {
        self.queue_with(name, |worker| worker.slots(slots).handlers(handlers))
    }

    /// Adds a queue with slots and settings of its own.
    pub fn queue_with(
        mut self,
        name: &str,
        configure: impl FnOnce(WorkerBuilder) -> WorkerBuilder,
    ) -> WorkersBuilder {
        match Queue::new(&self.db, name) {
            Ok(queue) => self.queues.push(configure(WorkerBuilder::new(&queue))),
            Err(error) => _ = self.first_error.get_or_insert(error),
        }
        self
    }

    /// Sets how many slots the queues have in all that [share](WorkerBuilder::share) them.
    ///
    /// Defaults to the number of available processors. Accepts 1 to 10,000.
    pub fn pool(mut self, slots: usize) -> WorkersBuilder {
        self.pool = slots;
        self
    }

    /// Changes the settings of all workers that were added so far.
    pub fn each(mut self, configure: impl Fn(WorkerBuilder) -> WorkerBuilder) -> WorkersBuilder {
        self.queues = self.queues.into_iter().map(configure).collect();
        self
    }

    /// Starts the worker.
    ///
    /// # Errors
    /// As [`WorkerBuilder::start`]. *Invalid* also if there is no queue.
    pub fn start(self) -> Result<Worker> {
        if let Some(error) = self.first_error {
            return Err(error);
        }
        if self.queues.is_empty() {
            return Err(Error::invalid("the workers have no queue"));
        }
        let (mut sharing, own): (Vec<_>, Vec<_>) =
            self.queues.into_iter().partition(|it| it.weight.is_some());
        for queue in &mut sharing {
            queue.slots = self.pool;
        }
        let pools = own.into_iter().map(|queue| vec![queue]).chain([sharing]);
        start(&self.db, pools.filter(|pool| !pool.is_empty()).collect())
    }
}

impl fmt::Debug for WorkersBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&self.queues).finish()
    }
}
