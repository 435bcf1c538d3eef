//! Claims as many jobs as the slots can use, and waits while there are none.

mod groups;
mod help;
mod limited;
mod probe;
mod promotion;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use crate::db::session::Session;
use crate::db::sql;
use crate::error::{Error, Result};
use crate::job::wait::from_now;
use crate::pipeline::claim::ClaimedJob;
use crate::pipeline::claim::demand::Fill;
use crate::pipeline::claim::group_walk::GroupWalk;
use crate::pipeline::claim::mark::Scan;
use crate::pipeline::promote::due::DueSearch;
use crate::sync::Instant;
use crate::sync::atomic::Ordering;
use crate::sync::channel::{Receiver, after, select};
use crate::worker::claimer::{Claimer, Disconnected, Dispatcher};
use crate::worker::limits::MAX_PAUSE;
use crate::worker::second_fetcher::{ClaimFrom, SecondFetcher};
use crate::worker::state::State;
use crate::worker::wake_mode::{BUSY_POLL_INTERVAL, Wake, WakeMode, WakePolicy};
use limited::{ClaimTurn, LimitedSearch};
use probe::ProbeSearch;

/// The longest time between promotions. A promotion also returns when the next job is due.
const PROMOTE_EVERY: Duration = Duration::from_secs(10);
const PROMOTE_EVERY_BUSY: Duration = Duration::from_secs(1);
/// The first pause after a database error.
const PAUSE: Duration = Duration::from_millis(100);
/// How often to warn about ready jobs of unhandled kinds.
const UNSERVED_EVERY: Duration = Duration::from_mins(1);

/// The longest pause of a fetcher that may not claim, so that it soon notices a closed breaker
/// or a resume.
const MAX_GATE_NAP: Duration = Duration::from_millis(250);

/// Claims until the worker stops. A second fetcher helps while batches are full.
pub(crate) fn work(
    state: &Arc<State>,
    claimer: Claimer,
    dispatcher: &Dispatcher,
    second: SecondFetcher,
    wake: &Receiver<Wake>,
    room: &Receiver<()>,
) {
    let policy = || WakePolicy::new(state.config.queue.database().pooler_mode(), Instant::now());
    let mut fetcher = Fetcher {
        state,
        claimer,
        second,
        last_look: Scan::Full,
        due: DueSearch::Unknown,
        probes: HashMap::new(),
        walk: GroupWalk::new(),
        turn: ClaimFrom::Groups,
        ring_empty_at: None,
        limited: HashMap::new(),
        limited_rounds: 0,
        first: ClaimTurn::Limited,
        promoted_at: Instant::now(),
        due_at: Some(Instant::now()),
        woken: false,
        policy: policy(),
        change: None,
        pause: PAUSE,
        meet_at: Instant::now(),
        unserved_at: Instant::now(),
    };
    while !state.stopping.is_set() {
        state.counts.looks.fetch_add(1, Ordering::Release);
        let demand = state.demand();
        // A worker that does not trust its leases starts nothing, so it claims nothing.
        let trusts = state.trust.holds(Instant::now());
        if !trusts {
            // Its row may have expired, and with it the request for notifications.
            fetcher.policy = policy();
        }
        if demand == 0 || !trusts {
            select! {
                recv(room) -> _ => {}
                recv(state.stop) -> _ => break,
                default(Duration::from_millis(50)) => {}
            }
            continue;
        }
        let plan = state
            .breakers
            .plan(state.config.kinds.as_deref(), Instant::now());
        let claimed = match &plan.probe {
            Some(due) => fetcher.probe(due, &plan),
            None if plan.is_shut => {
                fetcher.wait_for_gate(wake, plan.next);
                continue;
            }
            None if plan.limits.is_empty() => fetcher.round(demand, &plan.except),
            None => fetcher.limited_round(demand, &plan),
        };
        match claimed {
            Ok(claimed) if claimed.is_empty() && plan.probe.is_some() => {}
            Ok(claimed) if claimed.is_empty() => {
                let next = plan.next.into_iter().chain(fetcher.next_tokens(&plan));
                fetcher.idle(wake, next.min());
            }
            Ok(claimed) => {
                let found = Fill::of(claimed.len(), demand);
                if let Err(Disconnected) = dispatcher.dispatch(state, claimed) {
                    break;
                }
                if let Some(mode) = fetcher.change.take() {
                    fetcher.switch_mode(mode);
                } else if fetcher.policy.mode() != WakeMode::Notified && found == Fill::Partial {
                    // Jobs arrive one by one; a short pause lets the next claim take several.
                    fetcher.rest(BUSY_POLL_INTERVAL);
                }
            }
            Err(error) => fetcher.pause_after_error(&error),
        }
    }
    fetcher.second.end();
}

struct Fetcher<'a> {
    state: &'a Arc<State>,
    claimer: Claimer,
    second: SecondFetcher,
    last_look: Scan,
    /// Where promotions look.
    due: DueSearch,
    /// Where the probes of each breaker look.
    probes: HashMap<String, ProbeSearch>,
    /// Where claims look for jobs of groups.
    walk: GroupWalk,
    /// Which jobs of a queue with groups the next claim takes first.
    turn: ClaimFrom,
    /// When the last claim found no job that does not wait for a group. `None`: it found some.
    ring_empty_at: Option<Instant>,
    /// Where the claims under each rate limit look, by kind.
    limited: HashMap<Option<String>, LimitedSearch>,
    limited_rounds: usize,
    /// Which jobs the next round claims first.
    first: ClaimTurn,
    promoted_at: Instant,
    /// When the next delayed job is due.
    due_at: Option<Instant>,
    /// Whether a notification arrived since the last claim.
    woken: bool,
    /// Whether this worker asked for notifications.
    policy: WakePolicy,
    /// The mode to switch to.
    change: Option<WakeMode>,
    pause: Duration,
    /// When to count the other workers again.
    meet_at: Instant,
    unserved_at: Instant,
}

impl Fetcher<'_> {
    /// Claims jobs of a queue without rate limits.
    fn round(&mut self, demand: usize, except: &[String]) -> Result<Vec<ClaimedJob>> {
        let claimed = self.claim_round(demand, except)?;
        Ok(self.record_claim(claimed, demand))
    }

    /// Promotes due jobs and claims.
    fn claim_round(&mut self, demand: usize, except: &[String]) -> Result<Vec<ClaimedJob>> {
        self.claimer.leave(except);
        self.promote_when_due()?;
        match self.state.breakers.has_groups() {
            true => self.claim_with_groups(demand),
            false => self.claim_ring(demand),
        }
    }

    /// Claims jobs that do not wait for a group.
    fn claim_ring(&mut self, demand: usize) -> Result<Vec<ClaimedJob>> {
        if self.woken && self.policy.mode() == WakeMode::Notified {
            let told_of = self.claimer.claim_one()?;
            if !told_of.is_empty() {
                self.woken = false;
                return Ok(told_of);
            }
        }
        let mut claimed = self.claim(demand)?;
        self.ask_for_help(claimed.len(), ClaimFrom::Ring);
        // Nothing is left after the marks, but jobs may lie below them.
        if claimed.len() < demand
            && self.last_look == Scan::FromMarks
            && self.claimer.look() == Scan::Full
        {
            match self.claim(demand - claimed.len()) {
                Ok(mut more) => claimed.append(&mut more),
                Err(error) if claimed.is_empty() => return Err(error),
                // Run what was claimed. The next round retries.
                Err(error) => self.state.report_error(&error, Duration::ZERO),
            }
        }
        // The notification may be for a delayed job. A promotion returns when it is due.
        if std::mem::take(&mut self.woken) && claimed.is_empty() {
            self.promote()?;
        }
        Ok(claimed)
    }

    /// Records a claim.
    fn record_claim(&mut self, claimed: Vec<ClaimedJob>, demand: usize) -> Vec<ClaimedJob> {
        self.pause = PAUSE;
        let (notifications, found) = (self.state.notifications(), Fill::of(claimed.len(), demand));
        // Switched after the jobs have been dispatched.
        self.change = self
            .policy
            .claimed(Instant::now(), claimed.len(), found, notifications);
        claimed
    }

    fn claim(&mut self, limit: usize) -> Result<Vec<ClaimedJob>> {
        let (look, claimed) = self.claimer.claim(limit)?;
        self.last_look = look;
        let due_at = self.claimer.take_due();
        self.note_due(due_at);
        Ok(claimed)
    }

    /// Records when a delayed job is due.
    fn note_due(&mut self, due_at: Option<Instant>) {
        self.due_at = self.due_at.into_iter().chain(due_at).min();
    }

    /// Waits until a probe is due, the breaker closes or the pause ends.
    fn wait_for_gate(&mut self, wake: &Receiver<Wake>, next: Option<Instant>) {
        let until_next = next.map_or(MAX_GATE_NAP, |at| {
            at.saturating_duration_since(Instant::now())
        });
        let wait = until_next.clamp(Duration::from_millis(1), MAX_GATE_NAP);
        select! {
            recv(wake) -> first => match first {
                Ok(first) => std::iter::once(first).chain(wake.try_iter()).for_each(|why| self.handle_wake(why)),
                Err(_) => self.rest(wait),
            },
            recv(after(wait)) -> _ => {}
            recv(self.state.stop) -> _ => {}
        }
    }

    /// After an empty claim: switches the wake mode and claims once more, or waits.
    fn idle(&mut self, wake: &Receiver<Wake>, next: Option<Instant>) {
        if let Some(mode) = self.change.take() {
            // From now on enqueues notify. The next poll finds earlier jobs.
            self.switch_mode(mode);
            return;
        }
        let wait = self.policy.wait();
        let wait = match self.policy.mode() {
            WakeMode::Notified | WakeMode::Polling => self.poll_wait().min(wait),
            WakeMode::Busy => wait,
        };
        // Otherwise it has not searched the whole queue yet.
        if !wait.is_zero() {
            self.warn_of_unserved();
        }
        // The next probe or tokens.
        let until_next = next.map(|at| at.saturating_duration_since(Instant::now()));
        let wait = until_next.map_or(wait, |next| wait.min(next.max(Duration::from_millis(1))));
        let walk = self.walk.wait(Instant::now());
        let wait = walk.map_or(wait, |walk| wait.min(walk));
        select! {
            recv(wake) -> first => match first {
                // One poll serves all pending notifications.
                Ok(first) => std::iter::once(first).chain(wake.try_iter()).for_each(|why| self.handle_wake(why)),
                // The renewer is gone. Polling is enough.
                Err(_) => self.rest(wait),
            },
            recv(after(wait)) -> _ => {}
            recv(self.state.stop) -> _ => {}
        }
    }

    fn handle_wake(&mut self, why: Wake) {
        match why {
            Wake::Work => self.woken = true,
            Wake::Due(at) => self.note_due(Some(at)),
        }
    }

    /// Returns how long to wait for a notification until the next poll.
    fn poll_wait(&self) -> Duration {
        let poll = self.state.config.poll.mul_f64(0.8 + fastrand::f64() * 0.4);
        // Jobs due at the same time are promoted together.
        let until_due = self.due_at.map_or(poll, |due_at| {
            due_at
                .saturating_duration_since(Instant::now())
                .max(Duration::from_millis(1))
        });
        let until_sweep = self.due.sweep_in(Instant::now()).unwrap_or(poll);
        let poll = poll.min(until_sweep.max(Duration::from_millis(1)));
        match self.last_look {
            Scan::Full => poll.min(until_due),
            // Jobs below the marks have not been scanned yet.
            Scan::FromMarks | Scan::Gaps | Scan::Sweep => {
                poll.min(until_due).min(self.claimer.full_look_in())
            }
        }
    }

    /// Tells the database how this worker learns of jobs.
    fn switch_mode(&mut self, mode: WakeMode) {
        let worker = self.state.identity.id.0;
        let waits = mode == WakeMode::Notified;
        let notifications = self.state.notifications();
        let switched = self.call("record whether the worker waits", move |session| {
            session.query(
                "record whether the worker waits",
                &sql::WAIT,
                &[&worker, &waits],
            )
        });
        match switched {
            Ok(_) => self.policy.switch(mode, Instant::now(), notifications),
            Err(error) => self.pause_after_error(&error),
        }
    }

    /// Warns about ready jobs that this worker does not handle.
    fn warn_of_unserved(&mut self) {
        let Some(kinds) = self.state.config.kinds.clone() else {
            return;
        };
        if self.unserved_at > Instant::now() {
            return;
        }
        self.unserved_at = from_now(UNSERVED_EVERY);
        let queue = self.state.config.queue.shared_name();
        let unserved = self.call("look for jobs without a handler", move |session| {
            session.query(
                "look for jobs without a handler",
                &sql::UNSERVED,
                &[&&*queue, &&*kinds],
            )
        });
        for row in unserved.into_iter().flatten() {
            let (kind, jobs): (&str, i64) = (row.get("kind"), row.get("jobs"));
            log::warn!(
                "{} kind={kind}: {jobs} ready jobs have no handler in this worker",
                self.state
            );
        }
    }

    /// Waits after a database error, with jitter and exponential backoff.
    fn pause_after_error(&mut self, error: &Error) {
        let wait = self.pause.mul_f64(0.5 + fastrand::f64() / 2.0);
        self.state.report_error(error, wait);
        self.pause = (self.pause * 2).min(MAX_PAUSE);
        self.rest(wait);
    }

    fn rest(&self, wait: Duration) {
        select! {
            recv(self.state.stop) -> _ => {}
            recv(after(wait)) -> _ => {}
        }
    }

    fn call<T: Send + 'static>(
        &mut self,
        doing: &str,
        work: impl FnOnce(&mut Session) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        self.claimer.call(doing, work)
    }
}
