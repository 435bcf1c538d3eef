//! The fetcher: one thread that claims as many jobs as the slots can use, and waits when there
//! are none.

use std::sync::Arc;
use std::time::Duration;

use crate::breaker::{Ended, Probe, end_probe, open_breakers, take_probe};
use crate::claim::demand::BATCH;
use crate::claim::mark::Look;
use crate::claim::{Claim, Claimed, claim};
use crate::error::{Error, Result};
use crate::floor::Instant;
use crate::floor::channel::{Receiver, after, select};
use crate::promote::{PROMOTE_LIMIT, promote};
use crate::session::Session;
use crate::sql;
use crate::worker::claimer::{Claimer, Gone, Outlet};
use crate::worker::gates::{Due, Plan};
use crate::worker::notice::{Found, LOOK_AGAIN, Notice, Way};
use crate::worker::second::Second;
use crate::worker::state::State;

/// The longest time between two looks at the delayed jobs; a look tells what is due before.
const PROMOTE_EVERY: Duration = Duration::from_secs(10);
const PROMOTE_EVERY_BUSY: Duration = Duration::from_secs(1);
/// The first wait after an error of the database, and the longest.
const PAUSE: Duration = Duration::from_millis(100);
pub(super) const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// How often a worker says again that there are jobs that it does not handle.
const UNSERVED_EVERY: Duration = Duration::from_mins(1);

/// How late a fetcher that may claim nothing may notice that it may.
const SHUT: Duration = Duration::from_millis(250);

/// Why the fetcher is woken.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Wake {
    /// There may be jobs.
    Work,
    /// A delayed job is due at this moment.
    Due(Instant),
}

/// Claims until the worker stops, with the help of a second fetcher when there is much to do.
pub(crate) fn work(
    state: &Arc<State>,
    claimer: Claimer,
    outlet: &Outlet,
    second: Second,
    wake: &Receiver<Wake>,
    room: &Receiver<()>,
) {
    let notice = || {
        Notice::new(
            state.config.queue.database().stands_behind(),
            Instant::now(),
        )
    };
    let mut fetcher = Fetcher {
        state,
        claimer,
        second,
        last_look: Look::Full,
        promoted_at: Instant::now(),
        due_at: Some(Instant::now()),
        woken: false,
        notice: notice(),
        change: None,
        pause: PAUSE,
        unserved_at: Instant::now(),
    };
    while !state.stopping.is_ended() {
        let demand = state.demand();
        // Without trust in its leases a worker starts nothing, so it claims nothing.
        let trusts = state.trust.holds(Instant::now());
        if !trusts {
            // Its row may be forgotten, and with it that it asked to be told.
            fetcher.notice = notice();
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
            .gates
            .plan(state.config.kinds.as_deref(), Instant::now());
        let claimed = match &plan.probe {
            Some(due) => fetcher.probe(due, &plan),
            None if plan.is_shut => {
                fetcher.wait_for_a_breaker(wake, plan.next);
                continue;
            }
            None => fetcher.round(demand, &plan.except),
        };
        match claimed {
            Ok(claimed) if claimed.is_empty() && plan.probe.is_some() => {}
            Ok(claimed) if claimed.is_empty() => fetcher.idle(wake, plan.next),
            Ok(claimed) => {
                let found = found(&claimed, demand);
                if let Err(Gone) = outlet.hand_out(state, claimed) {
                    break;
                }
                if let Some(way) = fetcher.change.take() {
                    fetcher.say(way);
                } else if fetcher.notice.way() != Way::Told && found == Found::Less {
                    // Many come, one by one: what comes in a moment is claimed together.
                    fetcher.rest(LOOK_AGAIN);
                }
            }
            Err(error) => fetcher.trouble(&error),
        }
    }
    fetcher.second.end();
}

fn found(claimed: &[Claimed], demand: usize) -> Found {
    match claimed.len() < demand {
        true => Found::Less,
        false => Found::All,
    }
}

struct Fetcher<'a> {
    state: &'a Arc<State>,
    claimer: Claimer,
    second: Second,
    last_look: Look,
    promoted_at: Instant,
    /// When the next delayed job is known to be due.
    due_at: Option<Instant>,
    /// Whether a notification came since the last claim.
    woken: bool,
    /// What the database knows: whether this worker asked to be told.
    notice: Notice,
    /// The way that it is to go from here on.
    change: Option<Way>,
    pause: Duration,
    unserved_at: Instant,
}

impl Fetcher<'_> {
    /// Moves due jobs if it is time, and claims.
    fn round(&mut self, demand: usize, except: &[String]) -> Result<Vec<Claimed>> {
        let now = Instant::now();
        self.claimer.leave(except);
        if self.due_at.is_some_and(|due_at| due_at <= now)
            || now.duration_since(self.promoted_at) >= self.promote_every()
        {
            self.promote()?;
        }
        if self.woken && self.notice.way() == Way::Told {
            let told_of = self.claimer.claim_one()?;
            if !told_of.is_empty() {
                self.woken = false;
                return Ok(self.noted(told_of, demand));
            }
        }
        let mut claimed = self.claim(demand)?;
        // Where there are other workers, they are the second.
        if claimed.len() >= BATCH && self.state.others() == 0 {
            self.second.help(self.claimer.except());
        }
        // Where the marks point there is nothing more; but below them there may be.
        if claimed.len() < demand
            && self.last_look == Look::Marked
            && self.claimer.look() == Look::Full
        {
            match self.claim(demand - claimed.len()) {
                Ok(mut more) => claimed.append(&mut more),
                Err(error) if claimed.is_empty() => return Err(error),
                // What came runs; what did not is asked for in the next round.
                Err(error) => self.state.complain(&error),
            }
        }
        // What came may be a delayed job: then this tells when it is due.
        if std::mem::take(&mut self.woken) && claimed.is_empty() {
            self.promote()?;
        }
        Ok(self.noted(claimed, demand))
    }

    /// Takes note of what was claimed.
    fn noted(&mut self, claimed: Vec<Claimed>, demand: usize) -> Vec<Claimed> {
        self.pause = PAUSE;
        let (told, found) = (self.state.told(), found(&claimed, demand));
        // It is said when what was claimed has gone to the slots.
        self.change = self
            .notice
            .claimed(Instant::now(), claimed.len(), found, told);
        claimed
    }

    fn claim(&mut self, limit: usize) -> Result<Vec<Claimed>> {
        let (look, claimed) = self.claimer.claim(limit)?;
        self.last_look = look;
        Ok(claimed)
    }

    /// Claims one job to see whether what a breaker is of is back, if nobody else does.
    fn probe(&mut self, due: &Due, plan: &Plan) -> Result<Vec<Claimed>> {
        let asked_at = Instant::now();
        // Until it is known that the right to a probe is had.
        self.state.gates.put_off(due, asked_at);
        let except: Vec<String> = match &due.kinds {
            // What other breakers are of is left alone.
            None => plan.except.clone(),
            Some(_) => Vec::new(),
        };
        self.promote()?;
        let lasting = self.state.config.lease;
        let kinds: Option<Arc<[String]>> = match &due.kinds {
            Some(kinds) => Some(kinds.as_slice().into()),
            None => self.state.config.kinds.clone(),
        };
        let request = Claim {
            kinds: kinds.clone(),
            except: (!except.is_empty()).then(|| except.into()),
            ..self.claimer.request()
        };
        let (name, cause) = (due.name.clone(), due.cause);
        let had = self.call("probe", move |session| {
            let queue = Arc::clone(&request.queue);
            let taken = take_probe(
                session,
                &name,
                request.worker,
                lasting,
                &queue,
                kinds.as_deref(),
            )?;
            let Some(number) = taken else {
                // It may be closed, or somebody else's for a while.
                return Ok(Err(open_breakers(session)?));
            };
            let probe = Probe {
                name,
                cause,
                number,
            };
            let claimed = claim(session, &request)?;
            if claimed.is_empty() {
                end_probe(session, &probe, Ended::GiveBack)?;
            }
            Ok(Ok((probe, claimed)))
        })?;
        let (probe, claimed) = match had {
            Ok(had) => had,
            Err(open) => {
                self.state.gates.learn(open, Instant::now());
                // What is still due is not to be had.
                self.state.gates.put_off(due, Instant::now());
                return Ok(Vec::new());
            }
        };
        if let Some(job) = claimed.first() {
            log::info!("breaker `{}` is probed by job {}", probe.name, job.facts.id);
            let gates = &self.state.gates;
            gates.probing(job.lease, probe, asked_at + lasting);
        }
        Ok(claimed)
    }

    /// Waits until a probe is due, or the breaker is closed.
    fn wait_for_a_breaker(&mut self, wake: &Receiver<Wake>, next: Option<Instant>) {
        let until_next = next.map_or(SHUT, |at| at.saturating_duration_since(Instant::now()));
        let nap = until_next.clamp(Duration::from_millis(1), SHUT);
        select! {
            recv(wake) -> first => match first {
                Ok(first) => std::iter::once(first).chain(wake.try_iter()).for_each(|why| self.heed(why)),
                Err(_) => self.rest(nap),
            },
            recv(after(nap)) -> _ => {}
            recv(self.state.stop) -> _ => {}
        }
    }

    fn promote_every(&self) -> Duration {
        match self.notice.way() {
            Way::Told => PROMOTE_EVERY,
            // Nobody notifies a busy worker of a delayed job, nor one that cannot be told.
            Way::Looks | Way::Polls => PROMOTE_EVERY_BUSY,
        }
    }

    fn promote(&mut self) -> Result<()> {
        let queue = self.state.config.queue.shared_name();
        let promoted = self.call("promote delayed jobs", move |session| {
            promote(session, &queue)
        })?;
        let now = Instant::now();
        self.promoted_at = now;
        self.due_at = match promoted.next_due {
            _ if promoted.moved >= PROMOTE_LIMIT => Some(now),
            Some(next_due) if next_due < PROMOTE_EVERY => Some(now + next_due),
            Some(_) | None => None,
        };
        Ok(())
    }

    /// Nothing was ready: says so in the database, looks once more, then waits.
    fn idle(&mut self, wake: &Receiver<Wake>, next_probe: Option<Instant>) {
        if let Some(way) = self.change.take() {
            // From here on enqueues notify; what came before this moment, the next look finds.
            self.say(way);
            return;
        }
        let nap = self.notice.nap();
        let nap = match self.notice.way() {
            Way::Told | Way::Polls => self.naptime().min(nap),
            Way::Looks => nap,
        };
        self.mention_unserved();
        let until_probe = next_probe.map(|at| at.saturating_duration_since(Instant::now()));
        let nap = until_probe.map_or(nap, |probe| nap.min(probe.max(Duration::from_millis(1))));
        select! {
            recv(wake) -> first => match first {
                // What came with it is answered by the same look.
                Ok(first) => std::iter::once(first).chain(wake.try_iter()).for_each(|why| self.heed(why)),
                // The pulse is gone; polling is enough.
                Err(_) => self.rest(nap),
            },
            recv(after(nap)) -> _ => {}
            recv(self.state.stop) -> _ => {}
        }
    }

    fn heed(&mut self, why: Wake) {
        match why {
            Wake::Work => self.woken = true,
            Wake::Due(at) => self.due_at = self.due_at.into_iter().chain([at]).min(),
        }
    }

    /// How long to wait for a notification: until the next look is due.
    fn naptime(&self) -> Duration {
        let poll = self.state.config.poll.mul_f64(0.8 + fastrand::f64() * 0.4);
        // Due jobs of one moment are moved together.
        let until_due = self.due_at.map_or(poll, |due_at| {
            due_at
                .saturating_duration_since(Instant::now())
                .max(Duration::from_millis(1))
        });
        match self.last_look {
            Look::Full => poll.min(until_due),
            // What is below the marks has not been looked at yet.
            Look::Marked => poll.min(until_due).min(self.claimer.full_look_in()),
        }
    }

    /// Says which way it learns of jobs from here on.
    fn say(&mut self, way: Way) {
        let worker = self.state.settler.worker.0;
        let waits = way == Way::Told;
        let told = self.state.told();
        let said = self.call("say whether the worker waits", move |session| {
            session.query(
                "say whether the worker waits",
                &sql::WAIT,
                &[&worker, &waits],
            )
        });
        match said {
            Ok(_) => self.notice.goes(way, Instant::now(), told),
            Err(error) => self.trouble(&error),
        }
    }

    /// Says which ready jobs nobody here handles: they wait, and an engineer should know.
    fn mention_unserved(&mut self) {
        let Some(kinds) = self.state.config.kinds.clone() else {
            return;
        };
        if self.unserved_at > Instant::now() {
            return;
        }
        self.unserved_at = Instant::now() + UNSERVED_EVERY;
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
                "queue `{}` has jobs of kind `{kind}` ready, which this worker does not handle: {jobs}",
                self.state.queue()
            );
        }
    }

    /// The database is away, or refuses: waits with jitter, longer each time.
    fn trouble(&mut self, error: &Error) {
        self.state.complain(error);
        let nap = self.pause.mul_f64(0.5 + fastrand::f64() / 2.0);
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
        self.rest(nap);
    }

    fn rest(&self, nap: Duration) {
        select! {
            recv(self.state.stop) -> _ => {}
            recv(after(nap)) -> _ => {}
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
