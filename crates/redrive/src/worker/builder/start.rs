//! Starts the threads of a worker.

use std::sync::Arc;

use uuid::Uuid;

use super::{WORKER_CONNECTIONS, WorkerBuilder};
use crate::db::caller::DbCaller;
use crate::db::database::Database;
use crate::db::pool_share::PoolShare;
use crate::error::Result;
use crate::pipeline::claim::search::Search;
use crate::pipeline::claim::{ClaimedJob, Suspects, WorkerId};
use crate::pipeline::settlement::WorkerIdentity;
use crate::sync::Mutex;
use crate::sync::channel::{Sender, bounded, unbounded};
use crate::worker::claimer::{Claimer, Dispatcher};
use crate::worker::flood::FloodGuard;
use crate::worker::gatherer::{self, GathererContext};
use crate::worker::latch::{Latch, LatchReceiver};
use crate::worker::second_fetcher::SecondFetcher;
use crate::worker::settler::Message;
use crate::worker::slot::{self, SlotContext};
use crate::worker::slot_state::Chunk;
use crate::worker::state::{Config, State};
use crate::worker::{Worker, chores, fetcher, renewer, settler, threads, watchdog};

/// The size of a segment after which the ring turns. Small enough that a held xmin horizon costs
/// little, large enough that truncation is cheap.
const SEGMENT_BYTES: i64 = 32 * 1024 * 1024;

/// The capacity of the channels to the slots, in chunks. More than the jobs that a worker holds, unless
/// it has very many slots; then a sender waits.
const JOBS_IN_CHANNEL: usize = 8192;

impl WorkerBuilder {
    /// Starts the worker.
    ///
    /// It logs each [`DurabilityWarning`](crate::admin::DurabilityWarning) of the server.
    ///
    /// # Errors
    /// Fails if a setting is invalid: no handler, two handlers for a kind, a number out of range,
    /// or a pool with fewer than [`WORKER_CONNECTIONS`](crate::worker::WORKER_CONNECTIONS)
    /// connections. Also fails if the schema is older or newer than this library, or if the
    /// database does not answer.
    pub fn start(self) -> Result<Worker> {
        self.check()?;
        let db = self.queue.database();
        let pool = db.workers();
        let share = pool.admit(1, WORKER_CONNECTIONS, db.connections())?;
        let (stopping, stop) = Latch::new();
        self.launch((Arc::new(stopping), stop), &Arc::new(share))
    }

    /// Starts a checked worker, with a share of the pool. It ends by this latch.
    pub(crate) fn launch(
        mut self,
        stop: (Arc<Latch>, LatchReceiver),
        share: &Arc<PoolShare>,
    ) -> Result<Worker> {
        self.warn_of_few_connections();
        let db = self.queue.database().clone();
        // Open connections while the schema is checked. One after another, they would take half of
        // the time until the first job starts.
        let mut fetcher_db = db.caller("redrive-fetcher-db");
        let mut settler_db = db.caller("redrive-settler-db");
        fetcher_db.warm()?;
        settler_db.warm()?;
        db.check_schema()?;
        #[cfg(panic = "abort")]
        log::error!("this program is built with panic=abort: a panicking handler ends the process");

        let identity = self.identity();
        let config = Config {
            poll: self.poll_every(),
            queue: self.queue,
            kinds: self.handlers.table.kinds(),
            alone: self.handlers.table.kinds_in_transactions(),
            single: self.handlers.table.single_kinds(),
            handlers: self.handlers.table,
            slots: self.slots,
            lease: self.lease,
            hold_for: self.hold_for,
            backoff: self.backoff,
            deadline: self.deadline,
            hooks: self.hooks,
            segment_bytes: SEGMENT_BYTES,
            breaker_threshold: self.breaker_threshold,
            flood: self.flood.map(|(most, per)| FloodGuard::new(most, per)),
            unhandled_after: self.unhandled_after,
            age_priorities: self.age_priorities,
        };
        let (state, wakers) = State::new(config, identity, stop);
        let state = Arc::new(state);
        let mut renewer_db = db.caller("redrive-renewer-db");
        renewer::register(&state, &mut renewer_db)?;

        let (jobs, claimed) = bounded(JOBS_IN_CHANNEL);
        // The watchdog, which never waits, sends to both. What they hold is bounded by what the worker claims; see
        // `MAX_UNWRITTEN`.
        let (displace, displaced) = unbounded();
        let (settle, messages) = unbounded();
        let (wake, woken) = bounded(64);
        let (bye, left) = bounded(1);
        let (end, over) = Latch::new();
        let (claiming, claimed_last) = Latch::new();
        let context = SlotContext {
            state: Arc::clone(&state),
            jobs: claimed,
            displace,
            displaced,
            settle: settle.clone(),
            wake: wake.clone(),
            left: bye,
        };
        for _ in 0..state.config.slots {
            slot::start(&context)?;
        }
        let (gather, gatherer) = gathering(&state, &jobs, &settle).unzip();
        let dispatcher = Dispatcher { jobs, gather };
        let (claimer, second) = claimers(&state, &db, fetcher_db, &dispatcher)?;
        let mut started = vec![
            threads::start(&state, "settler", {
                let (state, wake) = (Arc::clone(&state), wake.clone());
                move || settler::work(&state, settler_db, &messages, &wake)
            })?,
            threads::start(&state, "chores", {
                let (state, wake, over) = (Arc::clone(&state), wake.clone(), over.clone());
                let chores_db = db.caller("redrive-chores-db");
                move || chores::work(&state, chores_db, &wake, &over, &wakers.schedules)
            })?,
            threads::start(&state, "renewer", {
                let (state, over) = (Arc::clone(&state), over.clone());
                move || renewer::work(&state, renewer_db, &wake, &over)
            })?,
            threads::start(&state, "fetcher", {
                let state = Arc::clone(&state);
                move || {
                    // Dropped when the fetcher ends, even if it panics.
                    let _claiming = claiming;
                    fetcher::work(&state, claimer, &dispatcher, second, &woken, &wakers.room);
                }
            })?,
        ];
        if let Some(gatherer) = gatherer {
            let shared = Arc::clone(&state);
            let gather = move || gatherer::work(&shared, &gatherer);
            started.push(threads::start(&state, "gatherer", gather)?);
        }
        // Not joined: it ends at its next check.
        threads::start(&state, "watchdog", move || {
            watchdog::work(&context, &over, &wakers.busy);
        })?;
        log::info!(
            "{state}: started with {} slots as worker {}",
            state.config.slots,
            state.identity.id.0
        );
        Ok(Worker {
            state,
            settle,
            left,
            over: Arc::new(end),
            claimed_last,
            threads: started,
            _share: Arc::clone(share),
        })
    }
}

impl WorkerBuilder {
    /// Returns the identity of a new worker.
    fn identity(&mut self) -> WorkerIdentity {
        WorkerIdentity {
            id: WorkerId(Uuid::new_v4()),
            host: host().into(),
            version: self
                .version
                .take()
                .unwrap_or_else(|| env!("CARGO_PKG_VERSION").to_owned())
                .into(),
            pid: std::process::id().cast_signed(),
        }
    }
}

/// Returns the channels of the gatherer, if there are batch handlers.
fn gathering(
    state: &State,
    jobs: &Sender<Chunk>,
    settle: &Sender<Message>,
) -> Option<(Sender<Vec<ClaimedJob>>, GathererContext)> {
    state.config.handlers.rules().next()?;
    let (gather, claimed) = bounded(JOBS_IN_CHANNEL);
    let gatherer = GathererContext {
        claimed,
        jobs: jobs.clone(),
        settle: settle.clone(),
    };
    Some((gather, gatherer))
}

/// Returns the claimers of both fetchers. The second connects when it first claims.
fn claimers(
    state: &Arc<State>,
    db: &Database,
    db_caller: DbCaller,
    dispatcher: &Dispatcher,
) -> Result<(Claimer, SecondFetcher)> {
    let search = Arc::new(Mutex::new(Search::new()));
    let db = db.clone();
    let second = move || db.caller("redrive-fetcher-2-db");
    Ok((
        Claimer::new(state, db_caller, &search, Suspects::Any),
        SecondFetcher::start(state, second, &search, dispatcher)?,
    ))
}

/// Returns the host name.
fn host() -> String {
    let from_file = || std::fs::read_to_string("/etc/hostname").ok();
    std::env::var("HOSTNAME")
        .ok()
        .or_else(from_file)
        .map(|name| {
            name.trim()
                .chars()
                .filter(|c| !c.is_control())
                .take(100)
                .collect::<String>()
        })
        .filter(|name| !name.is_empty())
        .unwrap_or_else(|| "unknown".to_owned())
}
