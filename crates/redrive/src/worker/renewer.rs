//! Renews the worker's leases, receives notifications, and reads the breakers and pauses, on a
//! connection that does nothing else.
//!
//! One row per process keeps all its leases alive. A renewal also stores checkpoints, and waits at most 100 ms for the
//! lock of a lease.

use std::time::Duration;

use postgres::fallible_iterator::FallibleIterator;
use uuid::Uuid;

use crate::db::ask::{all, rows};
use crate::db::caller::DbCaller;
use crate::db::column::Given;
use crate::db::pooler::Pooler;
use crate::db::session::Session;
use crate::db::sql;
use crate::error::{Error, Result};
use crate::job::job::{JobId, OpenTransaction};
use crate::job::payload::Json;
use crate::job::wait::from_now;
use crate::pipeline::checkpoint::store_soon;
use crate::pipeline::claim::LeaseId;
use crate::pipeline::gates::Gate;
use crate::pipeline::settle::release;
use crate::sync::atomic::Ordering;
use crate::sync::channel::TryRecvError;
use crate::sync::{Instant, Notification};
use crate::worker::latch::{LatchReceiver, lock};
use crate::worker::limits::{RENEWALS_PER_LEASE, check_interval};
use crate::worker::queues::Queues;
use crate::worker::retry::call_timeout;
use crate::worker::state::State;

/// The longest wait for a notification in one call. The renewer notices anything else this late.
const LISTEN_TIME: Duration = Duration::from_millis(250);
/// The wait after a failed renewal.
const PAUSE: Duration = Duration::from_millis(500);

const LISTEN: &str =
    "LISTEN redrive_ready; LISTEN redrive_cancel; LISTEN redrive_breaker; LISTEN redrive_schedule";

/// Reads the gates, and then renews for the first time, which creates the worker's rows and its trust in leases: others count
/// on a worker with rows until its lease ends.
pub(crate) fn register(queues: &Queues, db_caller: &mut DbCaller) -> Result<()> {
    learn_gates(queues, db_caller)?;
    renew(queues, db_caller).map(drop)
}

/// Runs until the worker ends.
pub(crate) fn work(queues: &Queues, db_caller: DbCaller, over: &LatchReceiver) {
    let (now, lease) = (Instant::now(), queues.lease());
    let mut renewer = Renewer {
        queues,
        db_caller,
        over,
        renew_at: now + lease / RENEWALS_PER_LEASE,
        gates_at: now + check_interval(lease),
    };
    while over.try_recv() == Err(TryRecvError::Empty) {
        if let Err(error) = renewer.run_once() {
            queues.first().report_error(&error, PAUSE);
            // Returns early when the worker ends.
            _ = over.recv_timeout(PAUSE);
        }
    }
    renewer.leave();
}

/// Ends the renewer's wait for notifications when the worker ends, which it would not see before its time. Other workers
/// get a notification about no job.
pub(crate) fn wake_at_end(state: &State, mut db_caller: DbCaller, over: &LatchReceiver) {
    _ = over.recv_timeout(LISTEN_TIME);
    if state.config.queue.database().pooler_mode() == Pooler::Transaction {
        return;
    }
    let what = "end the wait for notifications";
    let woken = db_caller.call(what, LISTEN_TIME, move |session| {
        let notified = session.client().batch_execute("NOTIFY redrive_cancel");
        notified.map_err(|error| Error::from_postgres(what, error))
    });
    if let Err(error) = woken {
        log::debug!("{state}: the worker ends a moment later: {error:#}");
    }
}

struct Renewer<'a> {
    queues: &'a Queues,
    db_caller: DbCaller,
    over: &'a LatchReceiver,
    renew_at: Instant,
    gates_at: Instant,
}

impl Renewer<'_> {
    fn run_once(&mut self) -> Result<()> {
        let (now, lease) = (Instant::now(), self.queues.lease());
        if now >= self.renew_at {
            let trusted = self.queues.iter().all(|state| state.trust.holds(now));
            if !trusted {
                let longest = self.queues.iter().map(|state| state.config.lease).max();
                *lock(&self.queues.first().shared.reap_from) = longest.map(from_now);
            }
            let renewed = renew(self.queues, &mut self.db_caller)?;
            self.renew_at = from_now(lease / RENEWALS_PER_LEASE);
            let (stored, released) = (self.store_checkpoints(), self.release_unknown(&renewed));
            // The next renewal tries again.
            for error in [stored, released].into_iter().filter_map(Result::err) {
                log::warn!("{}: {error:#}", self.queues.first());
            }
        }
        // A notification, or another thread, may have told that a breaker, a pause or a limit has changed.
        let shared = &self.queues.first().shared;
        if shared.stale_gates.swap(false, Ordering::Relaxed) {
            self.gates_at = now;
        }
        if now >= self.gates_at {
            learn_gates(self.queues, &mut self.db_caller)?;
            self.gates_at = now + check_interval(lease);
        }
        match self.queues.first().config.queue.database().pooler_mode() {
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

    /// Stores the new checkpoints of the running jobs.
    fn store_checkpoints(&mut self) -> Result<()> {
        let mut unstored = Vec::new();
        for run in self.queues.runs() {
            for running in run.jobs() {
                let keeps_snapshot = |own: &OpenTransaction| own.keeps_snapshot;
                if running.signal.transaction.get().is_some_and(keeps_snapshot) {
                    continue;
                }
                let new = running.signal.checkpoints.unstored();
                unstored.extend(new.map(|new| (running.clone(), new)));
            }
        }
        if unstored.is_empty() {
            return Ok(());
        }
        let timeout = self.timeout();
        self.db_caller
            .call("store checkpoints", timeout, move |session| {
                let checkpoints: Vec<_> = unstored
                    .iter()
                    .map(|(running, headers)| (running.lease, running.meta.id, headers))
                    .collect();
                store_soon(session, &checkpoints)?;
                for (running, headers) in unstored {
                    running.signal.checkpoints.stored(headers);
                }
                Ok(())
            })
    }

    /// Releases leases in the database that this worker does not know: claims whose answer was lost, and verdicts
    /// that it gave up. Takes the leases that the database knows, by queue.
    fn release_unknown(&mut self, renewed: &[Vec<Uuid>]) -> Result<()> {
        let timeout = self.timeout();
        let until = from_now(timeout).min(self.renew_at);
        for (state, leases) in self.queues.iter().zip(renewed) {
            let mut unknown: Vec<LeaseId> = leases.iter().copied().map(LeaseId).collect();
            {
                let held = lock(&state.held);
                unknown.retain(|lease| !held.contains_key(lease));
            }
            let mut released = 0;
            // One by one, so that one that the database rejects does not hold the others.
            for lease in unknown {
                // The lost claim may have had a lease for each job. The next renewal finds the others.
                if Instant::now() >= until {
                    break;
                }
                // Twice the time that a call may take: the answer to the claim was lost.
                let release = release(state.identity.id, Some(&[lease]), timeout * 2, None);
                match self.db_caller.call("release jobs", timeout, release) {
                    Err(error) if !error.is_unavailable() => log::error!("{state}: {error:#}"),
                    jobs => released += jobs?.len(),
                }
            }
            state.count_released(released);
            if released > 0 {
                log::warn!(
                    "{state}: released {released} jobs of leases that the worker does not know, because an answer was lost"
                );
            }
        }
        Ok(())
    }

    /// Waits briefly for notifications.
    ///
    /// The call wakes the fetcher before it returns: each thread in between costs a tenth of the time
    /// until a handler starts.
    fn listen(&mut self) -> Result<()> {
        let queues = self.queues.clone();
        self.db_caller
            .call("listen", self.timeout() + LISTEN_TIME, move |session| {
                receive(session, &queues, from_now(LISTEN_TIME))?;
                if session.is_closed() {
                    // Otherwise the next call would wait on a connection that does not listen.
                    return Err(Error::unavailable(
                        "could not listen for notifications: the connection ended",
                    ));
                }
                Ok(())
            })
    }

    /// Removes the worker's rows. If the database is unavailable, they expire.
    fn leave(&mut self) {
        let doing = "remove the worker's registration";
        let leave = rows(doing, &sql::LEAVE, &[&self.queues.ids()]);
        if let Err(error) = self.db_caller.call(doing, self.timeout(), leave) {
            log::warn!("{}: {error:#}", self.queues.first());
        }
    }

    fn timeout(&self) -> Duration {
        call_timeout(self.queues.first())
    }
}

/// Listens. Waits for the first notification, takes those that arrived with it, and wakes the threads that they concern.
fn receive(session: &mut Session, queues: &Queues, until: Instant) -> Result<()> {
    let failed = |error| Error::from_postgres("listen for notifications", error);
    if !session.listens {
        let client = session.client();
        client.batch_execute(LISTEN).map_err(failed)?;
        session.listens = true;
        // Jobs enqueued earlier sent no notification.
        queues.iter().for_each(|state| state.look_for_jobs());
    }
    let mut notifications = session.client().notifications();
    let take = |notification: &Notification| {
        let (channel, payload) = (notification.channel(), notification.payload());
        match channel {
            "redrive_ready" => {
                let concerned = queues.iter().filter(|state| state.queue() == payload);
                concerned.for_each(|state| state.notified());
            }
            "redrive_cancel" => cancel(queues, payload),
            "redrive_breaker" => queues.first().note_stale_gates(),
            "redrive_schedule" => queues.first().shared.schedules.ring(),
            _ => {}
        }
    };
    let timeout = until.saturating_duration_since(Instant::now());
    let first = notifications.timeout_iter(timeout).next().map_err(failed)?;
    if let Some(first) = first {
        take(&first);
        let mut rest = notifications.iter();
        while let Some(next) = rest.next().map_err(failed)? {
            take(&next);
        }
    }
    Ok(())
}

/// Cancels a job if this worker has it. The payload is a row of a worker and a job.
fn cancel(queues: &Queues, payload: &str) {
    let Some((worker, job)) = payload.split_once(' ') else {
        return;
    };
    let (Ok(worker), Ok(job)) = (Uuid::parse_str(worker), job.parse()) else {
        return;
    };
    let concerned = queues.iter().filter(|state| state.identity.id.0 == worker);
    concerned.for_each(|state| state.cancel(job));
}

/// Renews the leases of all queues, and learns which jobs were cancelled. Returns the leases that the database knows, by
/// queue.
fn renew(queues: &Queues, db_caller: &mut DbCaller) -> Result<Vec<Vec<Uuid>>> {
    let (sent_at, ids, identity) = (Instant::now(), queues.ids(), &queues.first().identity);
    let (mut names, mut slots, mut kinds) = (vec![], vec![], vec![]);
    let (mut terms, mut pools, mut slot_jobs) = (vec![], vec![], vec![]);
    let number = |slots: usize| i32::try_from(slots).unwrap_or(i32::MAX);
    for state in queues.iter() {
        names.push(state.queue());
        slots.push(number(state.slots.count));
        let handled = state.kinds.as_deref();
        let handled = handled.map(|its| Json::large("the kinds", &its));
        kinds.push(handled.transpose()?);
        terms.push(state.config.lease);
        pools.push(ids[state.pool]);
        slot_jobs.push(number(state.handlers.only_batches_of().unwrap_or(1)));
    }
    let given: [&dyn Given; 10] = [
        &ids,
        &names,
        &&*identity.host,
        &std::process::id(),
        &&*identity.version,
        &slots,
        &kinds,
        &terms,
        &pools,
        &slot_jobs,
    ];
    let doing = format!("renew the leases of queue `{}`", names.join("`, `"));
    let deadline = (queues.lease() / RENEWALS_PER_LEASE).min(call_timeout(queues.first()));
    let rows = db_caller.call(&doing, deadline, rows(&doing, &sql::RENEW, &given))?;
    let mut leases = Vec::new();
    for state in queues.iter() {
        let id = state.identity.id.0;
        let Some(row) = rows
            .iter()
            .find(|row| row.get::<_, Uuid>("worker_id") == id)
        else {
            return Err(Error::lost(format!(
                "could not renew the leases of {state}"
            )));
        };
        state.trust.renewed(sent_at, state.config.lease);
        let is_there = row.get("sees_other_version");
        state.sees_other_version.store(is_there, Ordering::Relaxed);
        let cancelled: Vec<i64> = row.get("cancelled");
        state.set_cancelled(&cancelled.into_iter().map(JobId::new).collect());
        leases.push(row.get("leases"));
    }
    queues.first().shared.outage_log.database_answered();
    Ok(leases)
}

/// Reads the breakers, pauses and limits, and wakes the fetcher for the queues of which it may claim more.
fn learn_gates(queues: &Queues, db_caller: &mut DbCaller) -> Result<()> {
    let deadline = call_timeout(queues.first());
    let doing = "read the breakers, pauses and limits";
    let read = all::<Gate>(doing, &sql::OPEN_BREAKERS, &[]);
    let gates = db_caller.call(doing, deadline, read)?;
    // After the call, so that a pause never ends earlier here than in the database.
    let now = Instant::now();
    for state in queues.iter() {
        if state.breakers.learn(&gates, now) {
            state.look_for_jobs();
        }
        state.counts.readings.fetch_add(1, Ordering::Release);
    }
    Ok(())
}
