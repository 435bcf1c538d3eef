//! The chores: what any worker does for all, one at a time and a little at a beat, so that no
//! leader is needed: reap, turn the ring, fold the counters and the counts of letters, drive redrive runs that nobody
//! drives, run the policies, apply retention. And a look at the breakers.
//!
//! Doing a chore twice is harmless: each is one statement that locks what it takes. One look every
//! third of a lease says what there is to do, so an idle worker asks no more than that.

use std::sync::Arc;
use std::time::Duration;

use crate::error::Result;
use crate::floor::Instant;
use crate::job::milliseconds;
use crate::lane::Lane;
use crate::policy::{Tick, run_policies};
use crate::reap::reap;
use crate::redrive::{Driven, Found, find_run};
use crate::retention::retain_a_batch;
use crate::session::Session;
use crate::sql;
use crate::worker::pulse::look_at_breakers;
use crate::worker::recovery::look_every;
use crate::worker::state::State;

/// How often a worker that works looks at the ring, and one that idles.
const RING_EVERY: Duration = Duration::from_secs(1);
const RING_EVERY_IDLE: Duration = Duration::from_mins(1);
/// How many counts a fold takes at most, and how many folds there are at a look.
const FOLD_ROWS: i32 = 50_000;
const FOLDS: usize = 10;
/// How many jobs of a paused queue move on in one step of the ring.
const STRAGGLERS: i32 = 1000;
/// How often a worker takes letters away whose time is over; at every look while there are more.
const RETAIN_EVERY: Duration = Duration::from_mins(1);

/// The chores of one worker, and when it does them next.
pub(crate) struct Chores<'a> {
    state: &'a Arc<State>,
    look_at: Instant,
    /// No reaping before: after an outage the other workers get time to renew.
    reap_from: Instant,
    ring_at: Instant,
    worked_at_last_turn: u64,
    retain_at: Instant,
    /// The redrive run that it drives, and when its next step is due.
    run: Option<(Found, Instant)>,
}

impl<'a> Chores<'a> {
    pub(crate) fn new(state: &'a Arc<State>) -> Chores<'a> {
        let now = Instant::now();
        // Each worker at a moment of its own.
        let first = look_every(state.config.lease).mul_f64(fastrand::f64());
        Chores {
            state,
            look_at: now + first,
            reap_from: now,
            ring_at: now + RING_EVERY,
            worked_at_last_turn: 0,
            retain_at: now + first,
            run: None,
        }
    }

    /// Lets the other workers renew first: the database was away for longer than a lease.
    pub(crate) fn reap_later(&mut self) {
        self.reap_from = Instant::now() + self.state.config.lease;
    }

    /// Does what is due. Answers whether there may be jobs now that the fetcher should look for.
    pub(crate) fn run(&mut self, lane: &mut Lane) -> Result<bool> {
        let now = Instant::now();
        let mut came_back = false;
        if now >= self.look_at {
            self.look_at = now + look_every(self.state.config.lease);
            let chores = self.look(lane)?;
            // Also when none is open any more and this worker believes that one is.
            if !self.state.gates.are_open() || chores.iter().any(|chore| chore == "breakers") {
                came_back |= look_at_breakers(self.state, lane)?;
            }
            for chore in chores {
                match &*chore {
                    "reap" if now >= self.reap_from => came_back |= self.reap(lane)?,
                    "fold" => self.fold(lane)?,
                    "fold_metrics" => self.fold_metrics(lane)?,
                    "policies" => self.run_policies(lane)?,
                    "retention" if now >= self.retain_at => self.retain(lane)?,
                    "runs" if self.run.is_none() => self.find_run(lane)?,
                    _ => {}
                }
            }
        }
        if now >= self.ring_at {
            self.turn_ring(lane)?;
        }
        if self
            .run
            .as_ref()
            .is_some_and(|(_, step_at)| now >= *step_at)
        {
            self.drive(lane)?;
        }
        Ok(came_back)
    }

    /// The names of the chores that there are.
    fn look(&self, lane: &mut Lane) -> Result<Vec<String>> {
        let me = self.state.settler.worker.0;
        let lease_ms = milliseconds(self.state.config.lease);
        self.call(lane, "look for chores", move |session| {
            let row = session.query_one("look for chores", &sql::CHORES, &[&me, &lease_ms])?;
            Ok(row.get("chores"))
        })
    }

    /// Folds what was counted into the totals, a few batches at most.
    fn fold_metrics(&self, lane: &mut Lane) -> Result<()> {
        for _ in 0..FOLDS {
            let folded = self.call(lane, "fold the counters", |session| {
                let row =
                    session.query_one("fold the counters", &sql::FOLD_METRICS, &[&FOLD_ROWS])?;
                Ok(row.get::<_, i64>("folded"))
            })?;
            if folded < i64::from(FOLD_ROWS) {
                break;
            }
        }
        Ok(())
    }

    /// Folds what changed in the numbers of failure groups into their totals.
    fn fold(&self, lane: &mut Lane) -> Result<()> {
        self.call(lane, "fold the counts of letters", |session| {
            session.query("fold the counts of letters", &sql::FOLD_LETTERS, &[])
        })
        .map(drop)
    }

    fn find_run(&mut self, lane: &mut Lane) -> Result<()> {
        let me = self.state.settler.worker.0;
        let found = self.call(lane, "find a redrive run", move |session| {
            find_run(session, me)
        })?;
        self.run = found.map(|run| (run, Instant::now()));
        Ok(())
    }

    fn reap(&self, lane: &mut Lane) -> Result<bool> {
        let lease = self.state.config.lease;
        let reaped = self.call(lane, "take back jobs of lost workers", move |session| {
            reap(session, lease)
        })?;
        let came_back = reaped.back + reaped.dead > 0;
        if came_back {
            log::warn!(
                "jobs of lost workers taken back: {}; dead: {}",
                reaped.back,
                reaped.dead
            );
        }
        Ok(came_back)
    }

    /// One step of the ring, if there was work since the last; more while there is something to do.
    /// What it tells beside that is for the fetcher.
    fn turn_ring(&mut self, lane: &mut Lane) -> Result<()> {
        let counts = self.state.counts.read();
        let worked = counts.done + counts.retried + counts.dead + counts.snoozed + counts.outages;
        let idle = worked == self.worked_at_last_turn;
        self.ring_at = Instant::now() + if idle { RING_EVERY_IDLE } else { RING_EVERY };
        self.worked_at_last_turn = worked;
        let bytes = self.state.config.segment_bytes;
        let state = Arc::clone(self.state);
        self.call(lane, "turn the ring", move |session| {
            // A truncation may be followed by a turn, and that by the next truncation.
            for _ in 0..4 {
                let row = session.query_one(
                    "turn the ring",
                    &sql::TURN_RING,
                    &[&bytes, &STRAGGLERS, &state.settler.worker.0],
                )?;
                state.knows(row.get("segment"), row.get("others"));
                match row.get("step") {
                    "nothing" => break,
                    step => log::debug!("the ring: {step}"),
                }
            }
            Ok(())
        })
    }

    /// Runs the policies that are due and that no other process has.
    fn run_policies(&self, lane: &mut Lane) -> Result<()> {
        let me = self.state.settler.worker.0;
        let ticks = self.call(lane, "run the policies", move |session| {
            run_policies(session, me)
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
    fn retain(&mut self, lane: &mut Lane) -> Result<()> {
        if !self.call(lane, "apply retention", retain_a_batch)? {
            self.retain_at = Instant::now() + RETAIN_EVERY;
        }
        Ok(())
    }

    /// One step of the redrive run in hand: a small batch a beat, so that the worker's own jobs do
    /// not wait for it. A run that ended, or that another process drives, is let go.
    fn drive(&mut self, lane: &mut Lane) -> Result<()> {
        let Some((mut run, _)) = self.run.take() else {
            return Ok(());
        };
        let (run, step) = self.call(lane, "drive a redrive run", move |session| {
            let step = run.step(session)?;
            Ok((run, step))
        })?;
        if step.driven == Driven::Running {
            self.run = Some((run, Instant::now() + step.wait));
        }
        Ok(())
    }

    fn call<T: Send + 'static>(
        &self,
        lane: &mut Lane,
        doing: &str,
        work: impl FnOnce(&mut Session) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        lane.call(
            doing,
            self.state.config.queue.database().call_timeout(),
            work,
        )
    }
}
