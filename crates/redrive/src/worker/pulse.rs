//! The pulse: one thread that keeps the worker's leases, listens for wake-ups, and does the
//! worker's share of the [chores](super::chores).

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use postgres::fallible_iterator::FallibleIterator;
use uuid::Uuid;

use crate::breaker::open_breakers;
use crate::claim::LeaseId;
use crate::error::{Error, Result};
use crate::floor::atomic::Ordering;
use crate::floor::channel::{Sender, TryRecvError};
use crate::floor::{Instant, Notification};
use crate::job::milliseconds;
use crate::lane::Lane;
use crate::pooler::Pooler;
use crate::session::Session;
use crate::settle::{Held, release};
use crate::sql;
use crate::worker::chores::Chores;
use crate::worker::fetch::Wake;
use crate::worker::lapses;
use crate::worker::limits::RENEWALS;
use crate::worker::recovery::LISTEN;
use crate::worker::state::{Ended, State, lock};

/// How often the thread asks for notifications again, in case that the server has forgotten.
const LISTEN_ANEW: Duration = Duration::from_mins(1);
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
pub(crate) fn work(state: &Arc<State>, mut lane: Lane, wake: &Sender<Wake>, over: &Ended) {
    lapses::mention(state, &mut lane);
    let now = Instant::now();
    let mut pulse = Pulse {
        state,
        lane,
        wake,
        over,
        renew_at: now + state.config.lease / RENEWALS,
        chores: Chores::new(state),
        listening: Listening::No,
        listen_anew_at: now + LISTEN_ANEW,
    };
    while over.try_recv() == Err(TryRecvError::Empty) {
        if let Err(error) = pulse.beat() {
            state.complain(&error);
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
    over: &'a Ended,
    renew_at: Instant,
    chores: Chores<'a>,
    listening: Listening,
    listen_anew_at: Instant,
}

impl Pulse<'_> {
    fn beat(&mut self) -> Result<()> {
        let now = Instant::now();
        if now >= self.renew_at {
            let trusted = self.state.trust.holds(now);
            if now >= self.listen_anew_at {
                self.listening = Listening::No;
                self.listen_anew_at = now + LISTEN_ANEW;
            }
            let renewed = renew(self.state, &mut self.lane)?;
            self.renew_at = Instant::now() + self.state.config.lease / RENEWALS;
            if !trusted {
                self.chores.reap_later();
            }
            self.heed(&renewed.cancelled);
            self.give_back_unknown(&renewed.leases)?;
        }
        if self.chores.run(&mut self.lane)? {
            // Full means that the fetcher will look anyway.
            _ = self.wake.try_send(Wake::Work);
        }
        match self.state.config.queue.database().stands_behind() {
            Pooler::Session => self.listen(),
            // Nobody who listens there is told. What a renewal and the look for chores tell is enough.
            Pooler::Transaction => {
                // Ends early when the worker does.
                _ = self.over.recv_timeout(LISTEN);
                Ok(())
            }
        }
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
        let held = Held::Unknown {
            known: known.into_iter().collect(),
            older_than: UNKNOWN_AFTER,
        };
        let worker = self.state.settler.worker;
        let released = self
            .lane
            .call("release jobs", self.timeout(), move |session| {
                release(session, worker, &held, &[])
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

    /// Waits for notifications, for a moment.
    ///
    /// The fetcher is woken from the lane, as soon as a notification is there: each thread that
    /// it would pass through on its way costs a tenth of the time until a handler begins.
    fn listen(&mut self) -> Result<()> {
        let listening = self.listening;
        let (state, wake) = (Arc::clone(self.state), self.wake.clone());
        let heard = self
            .lane
            .call("listen", self.timeout() + LISTEN, move |session| {
                let until = Instant::now() + LISTEN;
                if listening == Listening::No {
                    start_listening(session)?;
                    // What was enqueued before was told to nobody.
                    _ = wake.try_send(Wake::Work);
                }
                loop {
                    let heard = receive(session, &state, until)?;
                    if session.is_closed() {
                        // Or the next call would wait on a connection that does not listen.
                        return Err(Error::unavailable(
                            "could not listen for notifications: the connection ended",
                        ));
                    }
                    if heard.ready > 0 {
                        state.tell(heard.ready);
                        // Full means that the fetcher is awake already.
                        _ = wake.try_send(Wake::Work);
                    }
                    if heard.is_for_pulse() || Instant::now() >= until {
                        return Ok(heard);
                    }
                }
            })?;
        self.listening = Listening::Yes;
        if heard.cancels > 0 {
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

/// How often was notified what concerns this worker.
#[derive(Default)]
struct Heard {
    /// Jobs came.
    ready: u64,
    /// A job that it runs was cancelled.
    cancels: u64,
    /// A breaker changed.
    breakers: u64,
}

impl Heard {
    fn is_for_pulse(&self) -> bool {
        self.cancels + self.breakers > 0
    }
}

fn receive(session: &mut Session, state: &State, until: Instant) -> Result<Heard> {
    let mut heard = Heard::default();
    let mut notifications = session.client().notifications();
    let mut take = |notification: &Notification| match notification.channel() {
        "redrive_ready" if notification.payload() == state.queue() => heard.ready += 1,
        "redrive_cancel" if is_me(state, notification.payload()) => heard.cancels += 1,
        "redrive_breaker" => heard.breakers += 1,
        _ => {}
    };
    let failed = |error| Error::from_postgres("listen for notifications", error);
    // The first is waited for; what came with it is taken along.
    let patience = until.saturating_duration_since(Instant::now());
    let first = notifications
        .timeout_iter(patience)
        .next()
        .map_err(failed)?;
    if let Some(first) = first {
        take(&first);
        let mut rest = notifications.iter();
        while let Some(next) = rest.next().map_err(failed)? {
            take(&next);
        }
    }
    Ok(heard)
}

fn is_me(state: &State, worker: &str) -> bool {
    Uuid::parse_str(worker).is_ok_and(|worker| worker == state.settler.worker.0)
}

/// Learns what the breakers are like; answers whether the worker may claim more than before.
pub(crate) fn look_at_breakers(state: &Arc<State>, lane: &mut Lane) -> Result<bool> {
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
    let deadline =
        (state.config.lease / RENEWALS).min(state.config.queue.database().call_timeout());
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
