//! The pulse: one thread that keeps the worker's leases, listens for wake-ups, and does its share
//! of what any worker does for all: reap, turn the ring, run the policies, and apply
//! retention.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crossbeam_channel::{Sender, TryRecvError};
use postgres::fallible_iterator::FallibleIterator;
use uuid::Uuid;

use crate::claim::LeaseId;
use crate::error::{Error, Result};
use crate::job::milliseconds;
use crate::lane::Lane;
use crate::policy::{Tick, run_policies};
use crate::reap::reap;
use crate::retention::retain_a_batch;
use crate::session::Session;
use crate::settle::release;
use crate::sql;
use crate::worker::fetch::Wake;
use crate::worker::state::{Ended, State, lock};

/// The longest wait for a notification in one call: how late the thread notices its end.
const LISTEN: Duration = Duration::from_millis(250);
/// How often a worker looks for lost leases.
const REAP_EVERY: Duration = Duration::from_secs(10);
/// How often a worker that works looks at the ring, and one that idles.
const RING_EVERY: Duration = Duration::from_secs(1);
const RING_EVERY_IDLE: Duration = Duration::from_mins(1);
/// How often a worker looks for policies that are due.
const POLICIES_EVERY: Duration = Duration::from_secs(5);
/// How often a worker takes away letters whose time is over, and how often while there are more.
const RETAIN_EVERY: Duration = Duration::from_mins(1);
const RETAIN_MORE: Duration = Duration::from_secs(1);
/// How many jobs of a paused queue move on in one step of the ring.
const STRAGGLERS: i32 = 1000;
/// A lease that is unknown here is one whose claim was never answered, if it is older than this:
/// longer than a call takes.
const UNKNOWN_AFTER: Duration = Duration::from_secs(30);
/// The wait after a renewal that failed.
const PAUSE: Duration = Duration::from_millis(500);

/// Renews for the first time: the worker has a row, and trust in its leases.
pub(crate) fn register(state: &Arc<State>, lane: &mut Lane) -> Result<()> {
    renew(state, lane).map(drop)
}

/// Beats until the worker is over.
pub(crate) fn work(state: &Arc<State>, lane: Lane, wake: &Sender<Wake>, over: &Ended) {
    let now = Instant::now();
    let mut pulse = Pulse {
        state,
        lane,
        wake,
        renew_at: now + state.config.lease / 3,
        // Each worker at a moment of its own.
        reap_at: now
            + REAP_EVERY
                .min(state.config.lease / 3)
                .mul_f64(fastrand::f64()),
        reap_from: now,
        ring_at: now + RING_EVERY,
        policies_at: now
            + POLICIES_EVERY
                .min(state.config.lease / 3)
                .mul_f64(fastrand::f64()),
        retain_at: now
            + RETAIN_EVERY
                .min(state.config.lease / 3)
                .mul_f64(fastrand::f64()),
        listening: Listening::No,
        claimed_at_last_turn: 0,
    };
    while over.try_recv() == Err(TryRecvError::Empty) {
        if let Err(error) = pulse.beat() {
            if error.is_unavailable() {
                log::warn!("queue `{}`: {error}; trying again", state.queue());
            } else {
                log::error!("queue `{}`: {error:?}; trying again", state.queue());
            }
            pulse.listening = Listening::No;
            // Ends early when the worker does.
            _ = over.recv_timeout(PAUSE);
        }
    }
    pulse.leave();
}

/// Whether the lane's connection listens.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Listening {
    Yes,
    No,
}

struct Pulse<'a> {
    state: &'a Arc<State>,
    lane: Lane,
    wake: &'a Sender<Wake>,
    renew_at: Instant,
    reap_at: Instant,
    /// No reaping before: after an outage the other workers get time to renew.
    reap_from: Instant,
    ring_at: Instant,
    policies_at: Instant,
    retain_at: Instant,
    listening: Listening,
    claimed_at_last_turn: u64,
}

impl Pulse<'_> {
    fn beat(&mut self) -> Result<()> {
        let now = Instant::now();
        if now >= self.renew_at {
            let trusted = self.state.trust.holds(now);
            self.listening = Listening::No;
            let renewed = renew(self.state, &mut self.lane)?;
            self.renew_at = Instant::now() + self.state.config.lease / 3;
            if !trusted {
                self.reap_from = Instant::now() + self.state.config.lease;
            }
            self.heed(&renewed.cancelled);
            self.give_back_unknown(&renewed.leases)?;
        }
        if now >= self.reap_at {
            self.reap_at = now + REAP_EVERY.min(self.state.config.lease / 3);
            if now >= self.reap_from {
                self.reap()?;
            }
        }
        if now >= self.ring_at {
            self.turn_ring()?;
        }
        if now >= self.policies_at {
            self.policies_at = now + POLICIES_EVERY.min(self.state.config.lease / 3);
            self.run_policies()?;
        }
        if now >= self.retain_at {
            self.retain()?;
        }
        self.listen()
    }

    /// Tells the running jobs that an operator cancelled.
    fn heed(&self, cancelled: &[i64]) {
        if cancelled.is_empty() {
            return;
        }
        for seat in &*lock(&self.state.seats) {
            if let Some(running) = &*lock(&seat.running)
                && cancelled.contains(&running.facts.id.get())
            {
                running.signal.by_operator.store(true, Ordering::Relaxed);
                running.signal.cancelled.store(true, Ordering::Relaxed);
            }
        }
    }

    /// A lease in the database that nobody here knows is a claim whose answer was lost.
    fn give_back_unknown(&mut self, leases: &[Uuid]) -> Result<()> {
        let known: HashSet<LeaseId> = lock(&self.state.held).clone();
        if leases.iter().all(|lease| known.contains(&LeaseId(*lease))) {
            return Ok(());
        }
        let keep: Vec<LeaseId> = known.into_iter().collect();
        let worker = self.state.settler.worker;
        let released = self
            .lane
            .call("release jobs", self.timeout(), move |session| {
                release(session, worker, &keep, UNKNOWN_AFTER, &[])
            })?;
        self.state.count_released(released);
        if released > 0 {
            log::warn!(
                "queue `{}`: jobs released because their claim was never answered: {released}",
                self.state.queue()
            );
        }
        Ok(())
    }

    fn reap(&mut self) -> Result<()> {
        let lease = self.state.config.lease;
        let reaped = self.lane.call(
            "take back jobs of lost workers",
            self.timeout(),
            move |session| reap(session, lease),
        )?;
        if reaped.back + reaped.dead > 0 {
            log::warn!(
                "jobs of lost workers taken back: {}; dead: {}",
                reaped.back,
                reaped.dead
            );
            _ = self.wake.try_send(Wake::Work);
        }
        Ok(())
    }

    /// One step of the ring, if there was work since the last; more while there is something to do.
    fn turn_ring(&mut self) -> Result<()> {
        let counts = self.state.counts.read();
        let worked = counts.done + counts.retried + counts.dead + counts.snoozed;
        let idle = worked == self.claimed_at_last_turn;
        self.ring_at = Instant::now() + if idle { RING_EVERY_IDLE } else { RING_EVERY };
        self.claimed_at_last_turn = worked;
        let bytes = self.state.config.segment_bytes;
        self.lane
            .call("turn the ring", self.timeout(), move |session| {
                // A truncation may be followed by a turn, and that by the next truncation.
                for _ in 0..4 {
                    let row = session.query_one(
                        "turn the ring",
                        &sql::TURN_RING,
                        &[&bytes, &STRAGGLERS],
                    )?;
                    match row.get("step") {
                        "nothing" => break,
                        step => log::debug!("the ring: {step}"),
                    }
                }
                Ok(())
            })
    }

    /// Runs the policies that are due and that no other process has.
    fn run_policies(&mut self) -> Result<()> {
        let worker = self.state.settler.worker.0;
        let ticks = self
            .lane
            .call("run the policies", self.timeout(), move |session| {
                run_policies(session, worker)
            })?;
        for tick in ticks {
            let Tick {
                policy,
                mode,
                letters,
                trouble,
            } = tick;
            match trouble {
                Some(trouble) => log::error!("the policy `{policy}` failed: {trouble}"),
                None => log::info!("the policy `{policy}` ({mode}): letters: {letters}"),
            }
        }
        Ok(())
    }

    /// Takes a batch of the letters away whose time is over.
    fn retain(&mut self) -> Result<()> {
        self.retain_at = Instant::now() + RETAIN_EVERY;
        if self
            .lane
            .call("apply retention", self.timeout(), retain_a_batch)?
        {
            self.retain_at = Instant::now() + RETAIN_MORE;
        }
        Ok(())
    }

    /// Waits for notifications, for a moment.
    fn listen(&mut self) -> Result<()> {
        let listening = self.listening;
        let (ready, cancels) =
            self.lane
                .call("listen", self.timeout() + LISTEN, move |session| {
                    if listening == Listening::No {
                        start_listening(session)?;
                    }
                    receive(session)
                })?;
        self.listening = Listening::Yes;
        if ready.iter().any(|queue| queue == self.state.queue()) {
            // Full means that the fetcher is awake already.
            _ = self.wake.try_send(Wake::Work);
        }
        let me = self.state.settler.worker.0.to_string();
        if cancels.contains(&me) {
            // The renewal tells which jobs are meant.
            self.renew_at = Instant::now();
        }
        Ok(())
    }

    /// The end: off the list of workers. With the database away its row expires.
    fn leave(&mut self) {
        let worker = self.state.settler.worker.0;
        let left = self.lane.call(
            "leave the list of workers",
            self.timeout(),
            move |session| session.query("leave the list of workers", &sql::LEAVE, &[&worker]),
        );
        if let Err(error) = left {
            log::warn!("queue `{}`: {error}", self.state.queue());
        }
    }

    fn timeout(&self) -> Duration {
        self.state.config.queue.database().call_timeout()
    }
}

fn start_listening(session: &mut Session) -> Result<()> {
    session
        .client()
        .batch_execute("LISTEN redrive_ready; LISTEN redrive_cancel")
        .map_err(|error| Error::from_postgres("listen for notifications", error))
}

/// The payloads of the notifications on the two channels, ready and cancel.
fn receive(session: &mut Session) -> Result<(Vec<String>, Vec<String>)> {
    let (mut ready, mut cancels) = (Vec::new(), Vec::new());
    let mut notifications = session.client().notifications();
    let mut take = |notification: postgres::Notification| match notification.channel() {
        "redrive_ready" => ready.push(notification.payload().to_owned()),
        "redrive_cancel" => cancels.push(notification.payload().to_owned()),
        _ => {}
    };
    let failed = |error| Error::from_postgres("listen for notifications", error);
    // The first is waited for; what came with it is taken along.
    let first = notifications.timeout_iter(LISTEN).next().map_err(failed)?;
    if let Some(first) = first {
        take(first);
        let mut rest = notifications.iter();
        while let Some(next) = rest.next().map_err(failed)? {
            take(next);
        }
    }
    Ok((ready, cancels))
}

/// What a renewal answers.
struct Renewed {
    leases: Vec<Uuid>,
    cancelled: Vec<i64>,
}

fn renew(state: &Arc<State>, lane: &mut Lane) -> Result<Renewed> {
    let sent_at = Instant::now();
    let shared = Arc::clone(state);
    let deadline = (state.config.lease / 3).min(state.config.queue.database().call_timeout());
    let renewed = lane.call("renew the leases", deadline, move |session| {
        let config = &shared.config;
        let pid = std::process::id().cast_signed();
        let slots = i32::try_from(config.slots).unwrap_or(i32::MAX);
        let row = session.query_one(
            &format!("renew the leases of queue `{}`", config.queue.name()),
            &sql::RENEW,
            &[
                &shared.settler.worker.0,
                &config.queue.name(),
                &&*shared.settler.host,
                &pid,
                &&*shared.settler.version,
                &slots,
                &config.kinds.as_deref(),
                &milliseconds(config.lease),
            ],
        )?;
        Ok(Renewed {
            leases: row.get("leases"),
            cancelled: row.get("cancelled"),
        })
    })?;
    state.trust.renewed(sent_at, state.config.lease);
    Ok(renewed)
}
