//! Renews the worker's leases, receives notifications, and reads the breakers and pauses, on a
//! connection that does nothing else.
//!
//! One row per process keeps all its leases alive. A renewal also stores checkpoints, and waits at most 100 ms for the
//! lock of a lease.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use postgres::fallible_iterator::FallibleIterator;
use uuid::Uuid;

use crate::db::caller::DbCaller;
use crate::db::pooler::Pooler;
use crate::db::session::Session;
use crate::db::sql;
use crate::error::{Error, Result};
use crate::job::job::{JobId, OpenTransaction};
use crate::job::milliseconds::milliseconds;
use crate::job::wait::from_now;
use crate::pipeline::checkpoint::store_soon;
use crate::pipeline::claim::LeaseId;
use crate::pipeline::settle::{ReleaseScope, release};
use crate::sync::channel::{Sender, TryRecvError};
use crate::sync::{Instant, Notification};
use crate::worker::breaker_reports::learn_gates;
use crate::worker::latch::{LatchReceiver, lock};
use crate::worker::limits::RENEWALS_PER_LEASE;
use crate::worker::recovery_bounds::{LISTEN_TIME, check_interval, orphaned_after};
use crate::worker::retry::call_timeout;
use crate::worker::state::State;
use crate::worker::wake_mode::Wake;

/// How often to send LISTEN again, in case the server lost it.
const LISTEN_INTERVAL: Duration = Duration::from_mins(1);
/// How long the wait for notifications goes on before it sees that the worker ends.
const LISTEN_STEP: Duration = Duration::from_millis(60);
/// The wait after a failed renewal.
const PAUSE: Duration = Duration::from_millis(500);

/// Renews for the first time, which creates the worker's row and its trust in leases.
pub(crate) fn register(state: &Arc<State>, db_caller: &mut DbCaller) -> Result<()> {
    renew(state, db_caller).map(drop)?;
    learn_gates(state, db_caller).map(drop)
}

/// Runs until the worker ends.
pub(crate) fn work(
    state: &Arc<State>,
    db_caller: DbCaller,
    wake: &Sender<Wake>,
    over: &LatchReceiver,
) {
    let now = Instant::now();
    let mut renewer = Renewer {
        state,
        db_caller,
        wake,
        over,
        renew_at: now + state.config.lease / RENEWALS_PER_LEASE,
        gates_at: now + check_interval(state.config.lease),
        listening: Listening::No,
        relisten_at: now + LISTEN_INTERVAL,
    };
    while over.try_recv() == Err(TryRecvError::Empty) {
        if let Err(error) = renewer.run_once() {
            state.report_error(&error, PAUSE);
            renewer.listening = Listening::No;
            // Returns early when the worker ends.
            _ = over.recv_timeout(PAUSE);
        }
    }
    renewer.leave();
}

/// Whether the connection listens.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Listening {
    Yes,
    No,
}

struct Renewer<'a> {
    state: &'a Arc<State>,
    db_caller: DbCaller,
    wake: &'a Sender<Wake>,
    over: &'a LatchReceiver,
    renew_at: Instant,
    gates_at: Instant,
    listening: Listening,
    relisten_at: Instant,
}

impl Renewer<'_> {
    fn run_once(&mut self) -> Result<()> {
        let now = Instant::now();
        if now >= self.renew_at {
            let trusted = self.state.trust.holds(now);
            if now >= self.relisten_at {
                self.listening = Listening::No;
                self.relisten_at = now + LISTEN_INTERVAL;
            }
            let renewed = renew(self.state, &mut self.db_caller)?;
            self.renew_at = from_now(self.state.config.lease / RENEWALS_PER_LEASE);
            if !trusted {
                self.state
                    .trust
                    .reap_later(from_now(self.state.config.lease));
            }
            let cancelled = renewed.cancelled.iter().copied().map(JobId::new);
            self.state.set_cancelled(&cancelled.collect());
            self.store_checkpoints();
            self.release_unknown(&renewed.leases)?;
        }
        if now >= self.gates_at {
            self.gates_at = now + check_interval(self.state.config.lease);
            self.learn()?;
        }
        match self.state.config.queue.database().pooler_mode() {
            Pooler::Session => self.listen(),
            // A transaction-mode pooler forwards no notifications. Renewals and checks find the same
            // changes.
            Pooler::Transaction => {
                // Returns early when the worker ends.
                _ = self.over.recv_timeout(LISTEN_TIME);
                Ok(())
            }
        }
    }

    /// Stores the new checkpoints of the running jobs. The next renewal repeats what fails.
    fn store_checkpoints(&mut self) {
        let mut unstored = Vec::new();
        for slot_state in &*lock(&self.state.slots) {
            for running in &*lock(&slot_state.running) {
                let keeps_snapshot = |own: &OpenTransaction| own.keeps_snapshot;
                if running.signal.transaction.get().is_some_and(keeps_snapshot) {
                    continue;
                }
                if let Ok(Some(new)) = running.signal.checkpoints.unstored() {
                    unstored.push((Arc::clone(running), new));
                }
            }
        }
        if unstored.is_empty() {
            return;
        }
        let timeout = self.timeout();
        let stored = self
            .db_caller
            .call("store checkpoints", timeout, move |session| {
                let checkpoints: Vec<_> = unstored
                    .iter()
                    .map(|(running, new)| (running.lease, running.meta.id, &new.headers))
                    .collect();
                store_soon(session, &checkpoints)?;
                for (running, new) in &unstored {
                    running.signal.checkpoints.stored(new.version);
                }
                Ok(())
            });
        if let Err(error) = stored {
            log::warn!("{}: checkpoints not stored yet: {error:#}", self.state);
        }
    }

    /// Reads the breakers and pauses, and wakes the fetcher if it may claim more.
    fn learn(&mut self) -> Result<()> {
        if learn_gates(self.state, &mut self.db_caller)? {
            // A full channel means that the fetcher will poll anyway.
            _ = self.wake.try_send(Wake::Work);
        }
        Ok(())
    }

    /// Releases leases in the database that this worker does not know: claims whose answer was lost, and verdicts
    /// that it gave up.
    fn release_unknown(&mut self, leases: &[Uuid]) -> Result<()> {
        let known: HashSet<LeaseId> = lock(&self.state.held).keys().copied().collect();
        if leases.iter().all(|lease| known.contains(&LeaseId(*lease))) {
            return Ok(());
        }
        let held = ReleaseScope::Unknown {
            known: known.into_iter().collect(),
            older_than: orphaned_after(self.timeout()),
        };
        let worker = self.state.identity.id;
        let released = self
            .db_caller
            .call("release jobs", self.timeout(), move |session| {
                release(session, worker, &held, &[])
            })?;
        self.state.count_released(released.len());
        if !released.is_empty() {
            log::warn!(
                "{}: released {} jobs of leases that the worker does not know, because an answer was lost",
                self.state,
                released.len()
            );
        }
        Ok(())
    }

    /// Waits briefly for notifications.
    ///
    /// The call wakes the fetcher before it returns: each thread in between costs a tenth of the time
    /// until a handler starts.
    fn listen(&mut self) -> Result<()> {
        let listening = self.listening;
        let (state, wake, over) = (Arc::clone(self.state), self.wake.clone(), self.over.clone());
        let received =
            self.db_caller
                .call("listen", self.timeout() + LISTEN_TIME, move |session| {
                    let until = from_now(LISTEN_TIME);
                    if listening == Listening::No {
                        start_listening(session)?;
                        // Jobs enqueued earlier sent no notification.
                        _ = wake.try_send(Wake::Work);
                    }
                    loop {
                        let received = receive(session, &state, until.min(from_now(LISTEN_STEP)))?;
                        if session.is_closed() {
                            // Otherwise the next call would wait on a connection that does not
                            // listen.
                            return Err(Error::unavailable(
                                "could not listen for notifications: the connection ended",
                            ));
                        }
                        if received.ready > 0 {
                            state.count_notifications(received.ready);
                            // A full channel means that the fetcher is awake.
                            _ = wake.try_send(Wake::Work);
                        }
                        let ends = over.try_recv() != Err(TryRecvError::Empty);
                        if received.breakers > 0 || ends || Instant::now() >= until {
                            return Ok(received);
                        }
                    }
                })?;
        self.listening = Listening::Yes;
        if received.breakers > 0 {
            self.learn()?;
        }
        Ok(())
    }

    /// Removes the worker's row. If the database is unavailable, the row expires.
    fn leave(&mut self) {
        let worker = self.state.identity.id.0;
        let left = self.db_caller.call(
            "remove the worker's registration",
            self.timeout(),
            move |session| {
                session.query("remove the worker's registration", &sql::LEAVE, &[&worker])
            },
        );
        if let Err(error) = left {
            log::warn!("{}: {error:#}", self.state);
        }
    }

    fn timeout(&self) -> Duration {
        call_timeout(self.state)
    }
}

fn start_listening(session: &mut Session) -> Result<()> {
    session
        .client()
        .batch_execute("LISTEN redrive_ready; LISTEN redrive_cancel; LISTEN redrive_breaker; LISTEN redrive_schedule")
        .map_err(|error| Error::from_postgres("listen for notifications", error))
}

/// Notifications that concern this worker.
#[derive(Default)]
struct Received {
    /// New jobs.
    ready: u64,
    /// A changed breaker or pause.
    breakers: u64,
}

fn receive(session: &mut Session, state: &State, until: Instant) -> Result<Received> {
    let mut received = Received::default();
    let mut notifications = session.client().notifications();
    let mut take = |notification: &Notification| match notification.channel() {
        "redrive_ready" if notification.payload() == state.queue() => received.ready += 1,
        "redrive_cancel" => {
            if let Some(job) = cancelled_here(state, notification.payload()) {
                state.cancel(job);
            }
        }
        "redrive_breaker" => received.breakers += 1,
        "redrive_schedule" => state.look_for_schedules(),
        _ => {}
    };
    let failed = |error| Error::from_postgres("listen for notifications", error);
    // Wait for the first notification and take those that arrived with it.
    let timeout = until.saturating_duration_since(Instant::now());
    let first = notifications.timeout_iter(timeout).next().map_err(failed)?;
    if let Some(first) = first {
        take(&first);
        let mut rest = notifications.iter();
        while let Some(next) = rest.next().map_err(failed)? {
            take(&next);
        }
    }
    Ok(received)
}

/// Returns the cancelled job if this worker has it. The payload is a worker and a job.
fn cancelled_here(state: &State, payload: &str) -> Option<JobId> {
    let (worker, job) = payload.split_once(' ')?;
    let is_here = Uuid::parse_str(worker).is_ok_and(|worker| worker == state.identity.id.0);
    is_here.then(|| job.parse().ok()).flatten()
}

/// The result of a renewal.
struct Renewed {
    leases: Vec<Uuid>,
    cancelled: Vec<i64>,
    sees_other_version: bool,
}

fn renew(state: &Arc<State>, db_caller: &mut DbCaller) -> Result<Renewed> {
    let sent_at = Instant::now();
    let shared = Arc::clone(state);
    let deadline = (state.config.lease / RENEWALS_PER_LEASE).min(call_timeout(state));
    let renewed = db_caller.call("renew the leases", deadline, move |session| {
        let config = &shared.config;
        let pid = std::process::id().cast_signed();
        let slots = i32::try_from(config.slots).unwrap_or(i32::MAX);
        let row = session.query_one(
            &format!("renew the leases of queue `{}`", config.queue.name()),
            &sql::RENEW,
            &[
                &shared.identity.id.0,
                &config.queue.name(),
                &&*shared.identity.host,
                &pid,
                &&*shared.identity.version,
                &slots,
                &config.kinds.as_deref(),
                &milliseconds(config.lease),
            ],
        )?;
        Ok(Renewed {
            leases: row.get("leases"),
            cancelled: row.get("cancelled"),
            sees_other_version: row.get("sees_other_version"),
        })
    })?;
    state.trust.renewed(sent_at, state.config.lease);
    state.see_other_version(renewed.sees_other_version);
    state.outage_log.database_answered();
    Ok(renewed)
}
