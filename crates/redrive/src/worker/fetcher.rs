//! Claims as many jobs as the slots of each queue can use, in turns, and waits while there are none.

mod help;
mod idle;
mod probe;
mod promotion;
mod round;

use std::sync::Arc;
use std::time::Duration;

use crate::db::ask::rows;
use crate::db::sql;
use crate::error::Error;
use crate::job::wait::from_now;
use crate::pipeline::claim::demand::Fill;
use crate::pipeline::claim::{ClaimedJob, LeaseId, fill};
use crate::pipeline::settle::release;
use crate::sync::Instant;
use crate::sync::atomic::Ordering;
use crate::sync::channel::{Sender, TryRecvError, never, select};
use crate::worker::claimer::Claimer;
use crate::worker::limits::MAX_PAUSE;
use crate::worker::second_fetcher::Request;
use crate::worker::shared::Shared;
use crate::worker::source::{Source, Sources};
use crate::worker::state::State;
use crate::worker::wake_mode::{BUSY_POLL_INTERVAL, WakePolicy};

/// The time between promotions, if polls are not rarer. A promotion also returns when the next job is due.
const PROMOTE_EVERY: Duration = Duration::from_secs(10);
const PROMOTE_EVERY_BUSY: Duration = Duration::from_secs(1);
/// The first pause after a database error.
const PAUSE: Duration = Duration::from_millis(100);

/// The longest pause of a fetcher that may not claim, so that it soon notices a closed breaker
/// or a resume.
const MAX_GATE_NAP: Duration = Duration::from_millis(250);

/// The shortest wait for something that comes at a known time.
const LEAST_WAIT: Duration = Duration::from_millis(1);

/// How long to wait for more room, and for trust in the leases.
const ROOM_NAP: Duration = Duration::from_millis(50);

/// Claims for the queues in turns until the worker stops. A second fetcher helps while batches are full, and ends with these.
pub(crate) fn work(fetchers: &mut [Fetcher]) {
    let shared = Arc::clone(&fetchers[0].state.shared);
    let (mut look_at, mut suspects_ended) = (Instant::now(), 0);
    while shared.stopping.closed.try_recv() == Err(TryRecvError::Empty) {
        // A job of any queue may have waited for that, and sends no notification.
        let ended = shared.suspects.ended();
        if ended != suspects_ended {
            suspects_ended = ended;
            for fetcher in fetchers.iter() {
                fetcher.state.look_for_jobs();
            }
        }
        idle::poll(fetchers, &mut look_at);
        for fetcher in &mut *fetchers {
            if !fetcher.is_due(Instant::now()) || shared.stopping.is_set() {
                continue;
            }
            fetcher.next = fetcher.turn();
        }
        wait(fetchers, &shared);
    }
    for fetcher in fetchers {
        fetcher.claimer.start_batches();
    }
}

/// Waits until a fetcher or a batch is due.
fn wait(fetchers: &[Fetcher], shared: &Shared) {
    let batches = fetchers.iter();
    let batch = batches.filter_map(|it| it.claimer.start_batches()).min();
    let now = Instant::now();
    if fetchers.iter().any(|fetcher| fetcher.is_due(now)) {
        return;
    }
    let next = fetchers.iter().map(|fetcher| fetcher.next.at());
    let next = next.chain(batch);
    let wait = next.min().unwrap_or(now).saturating_duration_since(now);
    let waits_for_room = |fetcher: &Fetcher| matches!(fetcher.next, Next::Room(_));
    let room = match fetchers.iter().any(waits_for_room) {
        true => shared.room.rung.clone(),
        // The slots ring this bell with each job.
        false => never(),
    };
    select! {
        recv(room) -> _ => {},
        recv(shared.jobs.rung) -> _ => {},
        recv(shared.stopping.closed) -> _ => {},
        default(wait) => {}
    }
}

/// When a fetcher claims again: at this time at the latest.
#[derive(Clone, Copy, Debug)]
enum Next {
    /// Once there is room for jobs.
    Room(Instant),
    /// Once there may be jobs.
    News(Instant),
    At(Instant),
}

impl Next {
    fn once_there_is_room() -> Next {
        Next::Room(from_now(ROOM_NAP))
    }

    fn at(self) -> Instant {
        let (Next::Room(at) | Next::News(at) | Next::At(at)) = self;
        at
    }
}

/// Claims the jobs of a queue.
pub(crate) struct Fetcher {
    state: Arc<State>,
    claimer: Claimer,
    /// Asks the second fetcher for one more batch.
    second: Sender<Request>,
    known_sources: Sources,
    /// Those of the last round.
    sources: Vec<Arc<Source>>,
    next: Next,
    /// Whether it waits for nothing but notifications and its poll.
    only_polls: bool,
    /// How long the promotions took that failed slowly since the last one that succeeded.
    promotion_failed: Duration,
    promoted_at: Instant,
    /// When the next delayed job is due.
    due_at: Option<Instant>,
    /// When a promotion reads all due jobs in spite of a mark.
    whole_at: Option<Instant>,
    /// Whether a notification arrived since the last claim.
    woken: bool,
    /// Whether this worker asked for notifications.
    policy: WakePolicy,
    pause: Duration,
    /// When to count the other workers again.
    meet_at: Instant,
}

impl Fetcher {
    pub(crate) fn new(claimer: Claimer, second: Sender<Request>) -> Fetcher {
        let (state, now) = (Arc::clone(&claimer.state), Instant::now());
        let pooler = state.config.queue.database().pooler_mode();
        Fetcher {
            state,
            claimer,
            second,
            known_sources: Sources::default(),
            sources: Vec::new(),
            next: Next::once_there_is_room(),
            only_polls: false,
            promotion_failed: Duration::ZERO,
            promoted_at: now,
            due_at: Some(now),
            whole_at: None,
            woken: false,
            policy: WakePolicy::new(pooler, now),
            pause: PAUSE,
            meet_at: now,
        }
    }

    fn is_due(&self, now: Instant) -> bool {
        let is_called = match self.next {
            Next::Room(_) => self.state.demand() > 0,
            Next::News(_) => self.state.has_news(),
            Next::At(_) => false,
        };
        is_called || self.next.at() <= now
    }

    /// Claims once. Returns when to claim again.
    fn turn(&mut self) -> Next {
        self.state.counts.looks.fetch_add(1, Ordering::Release);
        // One poll serves all news.
        let (has_work, due_at) = self.state.take_news();
        self.woken |= has_work;
        self.due_at = self.due_at.into_iter().chain(due_at).min();
        self.only_polls = false;
        let now = Instant::now();
        // Also if that is little after a wait: the slow jobs in the other slots may take hours.
        let demand = self.state.room();
        if !self.state.trust.holds(now) {
            // A worker that does not trust its leases starts nothing, so it claims nothing. Its row may have
            // expired, and with it the request for notifications.
            let pooler = self.state.config.queue.database().pooler_mode();
            self.policy = WakePolicy::new(pooler, now);
            return Next::At(now + ROOM_NAP);
        }
        if demand == 0 {
            return Next::once_there_is_room();
        }
        let (kinds, breakers) = (&self.state.kinds, &self.state.breakers);
        let plan = breakers.plan(kinds.as_deref(), now);
        let claimed = match &plan.probe {
            Some(breaker) => self.probe(breaker, &plan),
            None if plan.is_shut => {
                self.state.user.set_hungry(false);
                return wait_for_gate(plan.next);
            }
            None => self.round(demand, &plan),
        };
        let mut claimed = match claimed {
            Ok(claimed) => claimed,
            Err(error) => return self.pause_after_error(&error),
        };
        self.return_suspects(&mut claimed);
        let found = fill(&claimed, demand);
        self.pause = PAUSE;
        let (now, jobs) = (Instant::now(), claimed.len());
        let notifications = self.state.notifications();
        // Switched after the jobs have been dispatched.
        let switches = plan.probe.is_none() && self.policy.claimed(now, jobs, found, notifications);
        self.state.user.set_hungry(found == Fill::Full);
        if claimed.is_empty() {
            if plan.probe.is_some() {
                // Jobs of other kinds come next, also if there is room for one only.
                return Next::At(now);
            }
            return self.idle(switches, plan.next);
        }
        self.claimer.dispatch(claimed);
        if switches {
            return self.switch_mode();
        }
        match !self.policy.is_notified() && found == Fill::Partial {
            // Jobs arrive one by one; a short pause lets the next claim take several.
            true => Next::At(from_now(BUSY_POLL_INTERVAL)),
            false => Next::once_there_is_room(),
        }
    }

    /// Returns the suspects that may not run beside one that was claimed with them or by another worker of the pool.
    fn return_suspects(&mut self, claimed: &mut Vec<ClaimedJob>) {
        let state = &self.state;
        let left_out = claimed.extract_if(.., |job| state.has_left_out(job));
        let leases: Vec<LeaseId> = left_out.map(|job| job.lease).collect();
        self.give_back(&leases);
    }

    /// Returns claimed jobs that may not run.
    fn give_back(&mut self, leases: &[LeaseId]) {
        if leases.is_empty() {
            return;
        }
        self.state.forget(leases);
        let worker = self.state.identity.id;
        let return_all = release(worker, Some(leases), Duration::ZERO, Some(&[]));
        if let Err(error) = self.claimer.call("return jobs", return_all) {
            // The renewer releases them as those of a lost claim.
            log::debug!("{}: {error:#}", self.state);
        }
    }

    /// After an empty claim: switches the wake mode and claims once more, or waits.
    fn idle(&mut self, switches: bool, next_probe: Option<Instant>) -> Next {
        if switches {
            // From now on enqueues notify. The next poll finds earlier jobs.
            return self.switch_mode();
        }
        let now = Instant::now();
        let has_groups = self.state.breakers.has_groups();
        let sources = self.sources.iter();
        let goes_on = sources.filter_map(|source| source.wait(has_groups)).min();
        self.only_polls = self.policy.is_notified()
            && goes_on.is_none()
            && next_probe.is_none()
            && self.whole_at.is_none();
        let until_probe = next_probe.map(|at| at.saturating_duration_since(now).max(LEAST_WAIT));
        let waits = goes_on.into_iter().chain(until_probe);
        Next::News(now + waits.fold(self.wait_for_jobs(), Duration::min))
    }

    /// Returns how long to wait until the next poll, because there are no jobs.
    fn wait_for_jobs(&mut self) -> Duration {
        let (now, wait) = (Instant::now(), self.policy.wait());
        let poll = self.state.config.poll.mul_f64(0.8 + fastrand::f64() * 0.4);
        // Jobs due at the same time are promoted together.
        let ends = self.due_at.into_iter().chain(self.whole_at);
        let ends = ends.map(|at| at.saturating_duration_since(now).max(LEAST_WAIT));
        ends.fold(poll.min(wait), Duration::min)
    }

    /// Tells the database how this worker learns of jobs.
    fn switch_mode(&mut self) -> Next {
        let (worker, waits) = (self.state.identity.id.0, !self.policy.is_notified());
        let notifications = self.state.notifications();
        let doing = "record whether the worker waits";
        match self
            .claimer
            .call(doing, rows(doing, &sql::WAIT, &[&worker, &waits]))
        {
            Ok(_) => {
                self.policy.switch(Instant::now(), notifications);
                Next::once_there_is_room()
            }
            Err(error) => self.pause_after_error(&error),
        }
    }

    fn pause_after_error(&mut self, error: &Error) -> Next {
        let wait = self.pause.mul_f64(0.5 + fastrand::f64() / 2.0);
        self.state.report_error(error, wait);
        self.pause = (self.pause * 2).min(MAX_PAUSE);
        Next::At(from_now(wait))
    }
}

/// Returns how far ahead a promotion looks for the next delayed job: at least to the next poll.
fn ahead(poll: Duration) -> Duration {
    PROMOTE_EVERY.max(poll * 2)
}

/// Waits until a gate may open.
fn wait_for_gate(next: Option<Instant>) -> Next {
    let now = Instant::now();
    let until_next = next.map_or(MAX_GATE_NAP, |at| at.saturating_duration_since(now));
    Next::News(now + until_next.clamp(LEAST_WAIT, MAX_GATE_NAP))
}
