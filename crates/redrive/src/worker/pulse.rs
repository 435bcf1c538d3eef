//! The pulse: one thread that keeps the worker's leases, listens for wake-ups, and does its share
//! of what any worker does for all: reap, turn the ring, and drive redrive runs that nobody drives.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crossbeam_channel::{Sender, TryRecvError};
use postgres::fallible_iterator::FallibleIterator;
use uuid::Uuid;

use crate::breaker::open_breakers;
use crate::claim::LeaseId;
use crate::error::{Error, Result};
use crate::job::milliseconds;
use crate::lane::Lane;
use crate::reap::reap;
use crate::redrive::{Driven, Found, find_run};
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
/// How often a worker looks for a redrive run that nobody drives, and how soon again after trouble
/// with one.
const RUNS_EVERY: Duration = Duration::from_secs(5);
/// How many jobs of a paused queue move on in one step of the ring.
const STRAGGLERS: i32 = 1000;
/// How often a worker folds the counts of letters, and one that idles.
const FOLD_EVERY: Duration = Duration::from_secs(5);
const FOLD_EVERY_IDLE: Duration = Duration::from_mins(1);
/// A lease that is unknown here is one whose claim was never answered, if it is older than this:
/// longer than a call takes.
const UNKNOWN_AFTER: Duration = Duration::from_secs(30);
/// The wait after a renewal that failed.
const PAUSE: Duration = Duration::from_millis(500);

/// Renews for the first time: the worker has a row, and trust in its leases.
pub(crate) fn register(state: &Arc<State>, lane: &mut Lane) -> Result<()> {
    renew(state, lane).map(drop)?;
    look_at_breakers(state, lane).map(drop)
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
        fold_at: now + FOLD_EVERY.mul_f64(fastrand::f64()),
        worked_at_last_fold: 0,
        // Each worker at a moment of its own.
        runs_at: now + RUNS_EVERY.mul_f64(fastrand::f64()),
        run: None,
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
    fold_at: Instant,
    worked_at_last_fold: u64,
    runs_at: Instant,
    /// The redrive run that it drives.
    run: Option<Found>,
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
            self.learn()?;
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
        if now >= self.fold_at {
            self.fold_letters()?;
        }
        if now >= self.runs_at {
            // Until it is known how this goes: not again at once.
            self.runs_at = now + RUNS_EVERY;
            self.drive_run()?;
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

    /// Learns what the breakers are like, and tells the fetcher.
    fn learn(&mut self) -> Result<()> {
        if look_at_breakers(self.state, &mut self.lane)? {
            _ = self.wake.try_send(Wake::Work);
        }
        Ok(())
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
        let worked = counts.done + counts.retried + counts.dead + counts.snoozed + counts.outages;
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

    /// Folds what changed in the numbers of failure groups into their totals, if there was work.
    fn fold_letters(&mut self) -> Result<()> {
        let counts = self.state.counts.read();
        let worked = counts.done + counts.retried + counts.dead + counts.snoozed;
        let idle = worked == self.worked_at_last_fold;
        self.fold_at = Instant::now() + if idle { FOLD_EVERY_IDLE } else { FOLD_EVERY };
        self.worked_at_last_fold = worked;
        self.lane
            .call("fold the counts of letters", self.timeout(), |session| {
                session.query("fold the counts of letters", &sql::FOLD_LETTERS, &[])
            })
            .map(drop)
    }

    /// One step of a redrive run, of this worker's or of one that nobody drives: a small batch a
    /// beat, so that the worker's own jobs do not wait for it.
    fn drive_run(&mut self) -> Result<()> {
        let me = self.state.settler.worker.0;
        let mut mine = self.run.take();
        let driven = self
            .lane
            .call("drive a redrive run", self.timeout(), move |session| {
                if mine.is_none() {
                    mine = find_run(session, me)?;
                }
                let Some(mut run) = mine else { return Ok(None) };
                let step = run.step(session)?;
                Ok(Some((run, step)))
            })?;
        if let Some((run, step)) = driven
            && step.driven == Driven::Running
        {
            self.run = Some(run);
            self.runs_at = Instant::now() + step.wait;
        }
        Ok(())
    }

    /// Waits for notifications, for a moment.
    fn listen(&mut self) -> Result<()> {
        let listening = self.listening;
        let heard = self
            .lane
            .call("listen", self.timeout() + LISTEN, move |session| {
                if listening == Listening::No {
                    start_listening(session)?;
                }
                receive(session)
            })?;
        self.listening = Listening::Yes;
        if heard.ready.iter().any(|queue| queue == self.state.queue()) {
            // Full means that the fetcher is awake already.
            _ = self.wake.try_send(Wake::Work);
        }
        let me = self.state.settler.worker.0.to_string();
        if heard.cancels.contains(&me) {
            // The renewal tells which jobs are meant.
            self.renew_at = Instant::now();
        }
        if heard.breakers > 0 {
            self.learn()?;
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
        .batch_execute("LISTEN redrive_ready; LISTEN redrive_cancel; LISTEN redrive_breaker")
        .map_err(|error| Error::from_postgres("listen for notifications", error))
}

/// What was notified, by channel.
#[derive(Default)]
struct Heard {
    /// Queues with jobs.
    ready: Vec<String>,
    /// Workers one of whose jobs was cancelled.
    cancels: Vec<String>,
    /// How many breakers changed.
    breakers: usize,
}

fn receive(session: &mut Session) -> Result<Heard> {
    let mut heard = Heard::default();
    let mut notifications = session.client().notifications();
    let mut take = |notification: postgres::Notification| match notification.channel() {
        "redrive_ready" => heard.ready.push(notification.payload().to_owned()),
        "redrive_cancel" => heard.cancels.push(notification.payload().to_owned()),
        "redrive_breaker" => heard.breakers += 1,
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
    Ok(heard)
}

/// Learns what the breakers are like; answers whether the worker may claim more than before.
fn look_at_breakers(state: &Arc<State>, lane: &mut Lane) -> Result<bool> {
    let deadline = state.config.queue.database().call_timeout();
    let open = lane.call("look at the breakers", deadline, open_breakers)?;
    Ok(state.gates.learn(open, Instant::now()))
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
