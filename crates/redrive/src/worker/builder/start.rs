//! Starts the threads of a worker.

use std::sync::Arc;
use std::time::Duration;

use uuid::Uuid;

use super::{WORKER_CONNECTIONS, WorkerBuilder};
use crate::db::caller::DbCaller;
use crate::db::database::Database;
use crate::db::spawn::spawn;
use crate::error::{Error, Result};
use crate::pipeline::claim::{WorkerId, WorkerIdentity};
use crate::sync::Mutex;
use crate::sync::channel::{Receiver, bounded, unbounded};
use crate::sync::handout::Giver;
use crate::worker::breaker_state::LocalBreakers;
use crate::worker::claimer::Claimer;
use crate::worker::fetcher::Fetcher;
use crate::worker::flood::FloodGuard;
use crate::worker::latch::{Alive, Latch};
use crate::worker::queues::Queues;
use crate::worker::second_fetcher;
use crate::worker::shared::Shared;
use crate::worker::slot::{self, SlotContext, SlotPool};
use crate::worker::slot_state::QueuedChunk;
use crate::worker::slots::{SlotUser, Slots};
use crate::worker::state::State;
use crate::worker::{Worker, chores, fetcher, renewer, settler, threads, watchdog};

impl WorkerBuilder {
    /// Starts the worker.
    ///
    /// It logs the [warnings](crate::admin::Admin::durability_warnings) if the server may lose committed data.
    ///
    /// # Errors
    /// Fails if a setting is invalid: no handler, two handlers for a kind, a number out of range,
    /// or a pool with fewer than [`WORKER_CONNECTIONS`](crate::worker::WORKER_CONNECTIONS)
    /// connections. Also fails if the schema is older or newer than this library, or if the
    /// database does not answer.
    pub fn start(self) -> Result<Worker> {
        let db = self.config.queue.database().clone();
        start(&db, vec![vec![self]])
    }
}

/// Starts the threads of a worker of these queues: at least one. Those of one vector use the same slots.
pub(crate) fn start(db: &Database, mut pools: Vec<Vec<WorkerBuilder>>) -> Result<Worker> {
    pools.iter().flatten().try_for_each(WorkerBuilder::check)?;
    let share = db.workers().admit(WORKER_CONNECTIONS, db.connections())?;
    limit_transactions(&mut pools, db.connections());
    // Connect while the schema is checked. One after another, the connections would take half of
    // the time until the first job starts. The settler must not wait for one that a handler has.
    let fetcher_db = connect(db.caller("redrive-fetcher-db"), db.call_timeout())?;
    let settler_db = connect(db.caller("redrive-settler-db"), db.call_timeout())?;
    db.check_schema()?;
    #[cfg(panic = "abort")]
    log::error!("this program is built with panic=abort: a panicking handler ends the process");

    let shared = Arc::new(Shared::new(&db.workers().suspects));
    let (states, to_slots): (Vec<_>, Vec<_>) = states(pools, &shared).into_iter().unzip();
    let queues = Queues::new(states);
    let mut renewer_db = db.caller("redrive-renewer-db");
    renewer::register(&queues, &mut renewer_db)?;

    let end = Latch::default();
    let over = end.closed.clone();
    let ((alive, ended), (claiming, claimed_last)) = (bounded(0), bounded(0));
    let first = queues.first();
    // First, because it removes the rows if another thread does not start.
    threads::start(first, "renewer", &alive, {
        let (queues, over) = (queues.clone(), over.clone());
        move || renewer::work(&queues, renewer_db, &over)
    })?;
    let (messages, inbox) = unbounded();
    let contexts = queues.iter().map(|state| SlotContext {
        state: Arc::clone(state),
        messages: messages.clone(),
    });
    let contexts: Arc<[SlotContext]> = contexts.collect();
    let pools = SlotPool::all(&contexts);
    for pool in &pools {
        (0..pool.slots().count).try_for_each(|_| slot::start(pool))?;
    }
    threads::start(first, "settler", &alive, {
        let (queues, over) = (queues.clone(), over.clone());
        let mut settler_db = connected(&settler_db)?;
        move || {
            settler::work(&queues, &mut settler_db, &inbox);
            renewer::wake_at_end(queues.first(), settler_db, &over);
        }
    })?;
    threads::start(first, "chores", &alive, {
        let (queues, over) = (queues.clone(), over.clone());
        let chores_db = db.caller("redrive-chores-db");
        move || chores::work(&queues, chores_db, &over)
    })?;
    threads::start(first, "watchdog", &alive, {
        let queues = queues.clone();
        move || watchdog::work(&queues, pools, &over)
    })?;
    let fetcher_db = connected(&fetcher_db)?;
    let mut fetchers = fetchers(db, fetcher_db, &queues, to_slots, &claiming)?;
    threads::start(first, "fetcher", &claiming, move || {
        fetcher::work(&mut fetchers);
    })?;
    for state in queues.iter() {
        log::info!(
            "{state}: started with {} slots as worker {}",
            state.slots.count,
            state.identity.id.0
        );
    }
    Ok(Worker {
        queues: contexts,
        shared,
        over: end,
        claimed_last,
        ended,
        _share: share,
    })
}

/// Lets a caller connect on a thread, which returns it.
fn connect(mut caller: DbCaller, within: Duration) -> Result<Receiver<DbCaller>> {
    let (connected, caller_back) = bounded(1);
    spawn("redrive-connect", move || {
        // The first call reports an error.
        _ = caller.call("open a connection", within, |_| Ok(()));
        _ = connected.send(caller);
    })?;
    Ok(caller_back)
}

fn connected(caller: &Receiver<DbCaller>) -> Result<DbCaller> {
    let lost = |_| Error::unavailable("could not open a connection: its thread ended");
    caller.recv().map_err(lost)
}

/// Gives queues with handlers in transactions no more slots than the pool has connections for, beside those of the worker
/// and one for other calls. The handlers would wait for each other's connections, and for those of the calls in them.
fn limit_transactions(pools: &mut [Vec<WorkerBuilder>], connections: u32) {
    let runs_any = |it: &WorkerBuilder| !it.handlers.kinds_in_transactions().is_empty();
    let users = pools.iter_mut().filter(|pool| pool.iter().any(runs_any));
    let mut users: Vec<&mut Vec<WorkerBuilder>> = users.collect();
    let slots: usize = users.iter().map(|pool| pool[0].slots).sum();
    let free = connections.saturating_sub(WORKER_CONNECTIONS + 1) as usize;
    if slots <= free {
        return;
    }
    let share = |of: usize| (of * free / slots).max(1);
    let shares = users.iter_mut().map(|pool| {
        pool[0].slots = share(pool[0].slots);
        pool[0].slots
    });
    let left: usize = shares.sum();
    log::warn!(
        "the queues with handlers in transactions get {left} of their {slots} slots, because the pool has {connections} \
         connections and its worker needs {WORKER_CONNECTIONS}"
    );
}

/// Returns the states of the queues, and what takes jobs to the slots of each. Those of one vector share the slots of the
/// first of them.
fn states(
    pools: Vec<Vec<WorkerBuilder>>,
    shared: &Arc<Shared>,
) -> Vec<(Arc<State>, Giver<QueuedChunk>)> {
    let mut states = Vec::new();
    for pool in pools {
        let first = states.len();
        let users = pool.iter().map(|it| SlotUser::new(it.weight.unwrap_or(1)));
        let users: Vec<Arc<SlotUser>> = users.collect();
        let (slots, giver) = Slots::new(pool[0].slots, users.clone());
        for (builder, user) in pool.into_iter().zip(users) {
            let breakers = LocalBreakers::new(
                builder.config.queue.name(),
                builder.breaker_threshold,
                builder.handlers.dependencies(),
                builder.flood.map(|(most, per)| FloodGuard::new(most, per)),
            );
            let version = builder.version.as_deref();
            let identity = WorkerIdentity {
                id: WorkerId(Uuid::new_v4()),
                host: host().into(),
                version: version.unwrap_or(env!("CARGO_PKG_VERSION")).into(),
            };
            let (config, handlers, shared) = (builder.config, builder.handlers, shared.clone());
            let slots = (first, Arc::clone(&slots), user);
            let place = states.len();
            let state = State::new(place, config, handlers, identity, shared, breakers, slots);
            states.push((Arc::new(state), giver.clone()));
        }
    }
    states
}

/// Returns the fetchers of all queues, which share a connection, and starts the second one, which connects when it first
/// claims.
fn fetchers(
    db: &Database,
    db_caller: DbCaller,
    queues: &Queues,
    to_slots: Vec<Giver<QueuedChunk>>,
    claiming: &Alive,
) -> Result<Vec<Fetcher>> {
    let callers = [db_caller, db.caller("redrive-fetcher-2-db")];
    let [first, second] = callers.map(|it| Arc::new(Mutex::new(it)));
    let (requests, asked) = bounded(1);
    let (mut fetchers, mut helped) = (Vec::new(), Vec::new());
    for (state, slots) in queues.iter().zip(to_slots) {
        helped.push(Claimer::new(state, &second, &slots, 0));
        let claimer = Claimer::new(state, &first, &slots, i32::MAX);
        fetchers.push(Fetcher::new(claimer, requests.clone()));
    }
    threads::start(queues.first(), "fetcher-2", claiming, move || {
        second_fetcher::work(&second, &mut helped, &asked);
    })?;
    Ok(fetchers)
}

/// Returns the host name.
fn host() -> String {
    let name = std::env::var("HOSTNAME").or_else(|_| std::fs::read_to_string("/etc/hostname"));
    let name = name.unwrap_or_default();
    let letters = name.trim().chars().filter(|c| !c.is_control());
    match letters.take(100).collect::<String>() {
        name if name.is_empty() => "unknown".to_owned(),
        name => name,
    }
}
