//! Does the chores that workers share, in small steps and without a leader.
//!
//! Workers reap lost jobs, turn the ring, fold counters and letter counts, drive redrive runs
//! without a driver, apply retention, warn of jobs that no worker handles, age
//! priorities, and run schedules. Each chore is a statement that locks what it takes, so two workers may do it at
//! once. One query every third of a lease returns the chores that are due and the time of the next tick of a schedule. An
//! idle worker sends hardly any other.
//!
//! Chores have a separate thread and connection, so that a slow one delays no renewal and no
//! notification. One that fails is logged, counted and [backs off](super::chore) alone.

mod age;
mod reap;
mod unhandled;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use crate::db::caller::DbCaller;
use crate::db::durability::{self, durability_warnings};
use crate::db::row::column;
use crate::db::session::Session;
use crate::db::sql;
use crate::dlq::retention::{RETAIN_BATCH, retain_a_batch};
use crate::dlq::runs::{DriveStatus, Steps, find_run};
use crate::error::{Error, Result};
use crate::job::milliseconds::milliseconds;
use crate::job::wait::from_now;
use crate::schedule::tick::run_schedules;
use crate::sync::Instant;
use crate::sync::atomic::Ordering;
use crate::sync::channel::select;
use crate::worker::chore::{Chore, ChoreHealth};
use crate::worker::chore_tallies::ChoreTallies;
use crate::worker::latch::LatchReceiver;
use crate::worker::limits::check_interval;
use crate::worker::queues::Queues;
use crate::worker::retry::call_timeout;
use crate::worker::state::State;
use crate::worker::stats::WorkerStats;

/// How often a busy and an idle worker check the ring.
const RING_EVERY: Duration = Duration::from_secs(1);
const RING_EVERY_IDLE: Duration = Duration::from_mins(1);
/// The size of a segment after which the ring turns. Small enough that a held xmin horizon costs
/// little, large enough that truncation is cheap.
const SEGMENT_BYTES: i64 = 32 * 1024 * 1024;
/// How long a chore may repeat its statement. The statement timeout bounds each of them.
const CHORE_BUDGET: Duration = Duration::from_secs(2);
/// The maximum number of rows per fold.
const FOLD_ROWS: i32 = 20_000;
/// How many jobs of a paused queue move per step of the ring.
const STRAGGLERS: i32 = 1000;
/// The maximum number of steps of the ring in a row: a truncation may allow a turn, and that another
/// truncation.
const RING_STEPS: usize = 4;
/// How often to apply retention. While letters are left, every look does.
const RETAIN_EVERY: Duration = Duration::from_mins(1);
/// How many redrive runs a worker drives, and finds at a look.
const MAX_RUNS: usize = 8;

/// Runs until the worker ends.
pub(crate) fn work(queues: &Queues, db_caller: DbCaller, over: &LatchReceiver) {
    let mut chores = Chores::new(queues, db_caller);
    chores.warn_of_durability();
    loop {
        chores.run_due();
        let pause = chores.next_at().saturating_duration_since(Instant::now());
        select! {
            recv(over) -> _ => {
                if chores.tallies.has_work() {
                    chores.write_tallies();
                }
                return;
            }
            recv(queues.first().shared.schedules.rung) -> _ => chores.schedules_at = Some(Instant::now()),
            default(pause) => {}
        }
    }
}

/// What the chores remember of a queue.
#[derive(Default)]
struct OfQueue {
    /// When each kind was first seen that no live worker handles.
    unhandled: HashMap<String, Instant>,
    /// When to warn again of jobs that nobody handles. `None`: at the next look.
    warn_at: Option<Instant>,
    /// The rank whose jobs were aged last, until none is left.
    aged_rank: Option<i32>,
}

/// The chores of a worker and when they are next due.
struct Chores<'a> {
    queues: &'a Queues,
    /// The queue that speaks for all.
    state: &'a Arc<State>,
    db_caller: DbCaller,
    health: BTreeMap<Chore, ChoreHealth>,
    tallies: ChoreTallies,
    look_at: Instant,
    ring_at: Instant,
    worked_at_last_turn: u64,
    retain_at: Instant,
    /// When the next schedule ticks.
    schedules_at: Option<Instant>,
    /// What is remembered of each queue.
    of_queues: Vec<OfQueue>,
    /// The redrive runs driven here and when the next step of each is due, in the order in which they were found.
    runs: VecDeque<(Steps, Instant)>,
}

impl<'a> Chores<'a> {
    fn new(queues: &'a Queues, db_caller: DbCaller) -> Chores<'a> {
        let now = Instant::now();
        // Spreads the workers over time.
        let first = check_interval(queues.lease()).mul_f64(fastrand::f64());
        Chores {
            queues,
            state: queues.first(),
            db_caller,
            health: BTreeMap::new(),
            tallies: ChoreTallies::default(),
            look_at: now + first,
            ring_at: now + RING_EVERY,
            worked_at_last_turn: 0,
            retain_at: now + first,
            // A tick may have been missed while no worker ran.
            schedules_at: Some(now),
            of_queues: queues.iter().map(|_| OfQueue::default()).collect(),
            runs: VecDeque::new(),
        }
    }

    /// Logs what lets the server lose committed data. If it cannot read that, the worker goes on.
    fn warn_of_durability(&mut self) {
        match self.call(durability::DOING, durability_warnings) {
            Ok(warnings) => {
                for warning in warnings {
                    log::warn!("{}: {warning}", self.state);
                }
            }
            Err(error) => log::debug!("{}: {error:#}", self.state),
        }
    }

    /// When the next chore is due.
    fn next_at(&self) -> Instant {
        let step_at = self.next_run().map(|place| self.runs[place].1);
        let runs_at = step_at.max(
            self.health
                .get(&Chore::Runs)
                .and_then(ChoreHealth::paused_until),
        );
        let checks = self.look_at.min(self.ring_at);
        [step_at.and(runs_at), self.schedules_at]
            .into_iter()
            .flatten()
            .fold(checks, Instant::min)
    }

    fn run_due(&mut self) {
        let now = Instant::now();
        self.tick_if_due(now);
        if now >= self.look_at {
            self.look_at = now + check_interval(self.queues.lease());
            let mut due = Vec::new();
            self.attempt(Chore::Look, |chores| {
                due = chores.look()?;
                Ok(())
            });
            self.tick_if_due(Instant::now());
            for chore in Chore::ALL {
                let rests = chore == Chore::Retention && now < self.retain_at;
                if !rests && due.iter().any(|name| name == chore.as_str()) {
                    self.attempt(chore, |chores| chores.perform(chore));
                }
            }
            self.attempt_of_queues();
            if self.tallies.has_work() {
                self.write_tallies();
            }
        }
        if now >= self.ring_at {
            self.schedule_ring();
            self.attempt(Chore::Ring, Chores::turn_ring);
        }
        if let Some(place) = self.next_run().filter(|place| now >= self.runs[*place].1) {
            self.attempt(Chore::Runs, |chores| chores.drive(place));
        }
    }

    /// Runs the schedules if one ticks now, and remembers when the next one does.
    fn tick_if_due(&mut self, now: Instant) {
        if self.schedules_at.is_none_or(|at| now < at) {
            return;
        }
        // Until a look learns it again, if the chore fails or is paused.
        self.schedules_at = None;
        self.attempt(Chore::Schedules, |chores| {
            let next = chores.call("run the schedules", run_schedules)?;
            chores.schedules_at = next.map(from_now);
            Ok(())
        });
    }

    /// Runs a chore unless it is paused. A failure concerns this chore alone.
    fn attempt(&mut self, chore: Chore, work: impl FnOnce(&mut Self) -> Result<()>) {
        let begun = Instant::now();
        if self.health(chore).is_paused(begun) {
            return;
        }
        let result = work(self);
        let ended = Instant::now();
        self.tallies.ran(chore, ended - begun);
        match result {
            Ok(()) => self.health(chore).succeeded(),
            Err(error) => {
                self.tallies.failed(chore);
                let pause = self.health(chore).failed(chore, ended);
                if chore == Chore::Look {
                    self.look_at = self.look_at.min(ended + pause);
                }
                self.state.report_error(&error, pause);
            }
        }
    }

    /// Attempts the chores that some queues ask for.
    fn attempt_of_queues(&mut self) {
        let (all, now) = (self.queues, Instant::now());
        if all.iter().any(|state| self.wants_unhandled(state, now)) {
            self.attempt(Chore::Unhandled, |chores| {
                chores.in_each_queue(Self::look_for_unhandled)
            });
        }
        if all
            .iter()
            .any(|state| state.config.age_priorities.is_some())
        {
            self.attempt(Chore::Age, |chores| {
                chores.in_each_queue(Self::age_priorities)
            });
        }
    }

    /// A failure in one queue must not keep the others from their turn. But a database that does not answer would hold
    /// each of them for a timeout.
    fn in_each_queue(&mut self, work: fn(&mut Self, &State) -> Result<()>) -> Result<()> {
        let mut done = Ok(());
        for state in self.queues.iter() {
            let result = work(self, state);
            if result.as_ref().is_err_and(Error::is_unavailable) {
                return result;
            }
            done = done.and(result);
        }
        done
    }

    fn health(&mut self, chore: Chore) -> &mut ChoreHealth {
        self.health.entry(chore).or_default()
    }

    /// Returns the names of the chores that are due, and learns when the next schedule ticks.
    fn look(&mut self) -> Result<Vec<String>> {
        let me = self.queues.ids();
        let lease_ms = milliseconds(self.queues.lease());
        let (chores, next): (_, Option<Duration>) =
            self.call("look for chores", move |session| {
                let row = session.query_one("look for chores", &sql::CHORES, &[&me, &lease_ms])?;
                Ok((row.get("chores"), column(&row, "schedules_ms")?))
            })?;
        self.schedules_at = next.map(from_now);
        Ok(chores)
    }

    /// Runs a chore that a look reported.
    fn perform(&mut self, chore: Chore) -> Result<()> {
        match chore {
            Chore::Compact => self.compact(),
            Chore::Reap => self.reap(),
            Chore::FoldLetters => {
                self.fold(chore, "fold the counts of letters", &sql::FOLD_LETTERS)
            }
            Chore::FoldRuns => self.fold(chore, "fold the counts of runs", &sql::FOLD_RUNS),
            Chore::FoldCounters => self.fold(chore, "fold the counters", &sql::FOLD_METRICS),
            Chore::Retention => self.retain(),
            Chore::Buckets => self.fold(chore, "forget buckets", &sql::FORGET_FULL_BUCKETS),
            Chore::Runs => self.find_runs(),
            // These are not in the answer of a look.
            Chore::Look | Chore::Schedules | Chore::Ring | Chore::Unhandled | Chore::Age => Ok(()),
        }
    }

    /// Rewrites tables until none is due or the time is used up.
    fn compact(&mut self) -> Result<()> {
        let begun = Instant::now();
        while begun.elapsed() < CHORE_BUDGET {
            let compacted: Option<String> = self.call("compact a table", |session| {
                let row = session.query_one("compact a table", &sql::COMPACT, &[])?;
                Ok(row.get(0))
            })?;
            match compacted {
                Some(table) => log::debug!("{}: compacted {table}", self.state),
                None => break,
            }
        }
        Ok(())
    }

    /// Folds rows into totals, or deletes them, until none are left or the time is used up.
    fn fold(&mut self, chore: Chore, doing: &'static str, sql: &'static sql::Sql) -> Result<()> {
        let begun = Instant::now();
        let rows = self.health(chore).bound(FOLD_ROWS);
        while begun.elapsed() < CHORE_BUDGET {
            let folded: i64 = self.call(doing, move |session| {
                Ok(session.query_one(doing, sql, &[&rows])?.get(0))
            })?;
            if folded < i64::from(rows) {
                break;
            }
        }
        Ok(())
    }

    /// Takes runs without a driver. A run may wait for hours, so if they are too many, those that were found first are
    /// dropped. Once the lease of its driver ends, a run is found again, after those that were driven less recently.
    fn find_runs(&mut self) -> Result<()> {
        let me = self.state.identity.id.0;
        let found = self.call("find redrive runs", move |session| {
            let found = std::iter::from_fn(|| find_run(session, me).transpose());
            found.take(MAX_RUNS).collect::<Result<Vec<Steps>>>()
        })?;
        let now = Instant::now();
        self.runs.extend(found.into_iter().map(|run| (run, now)));
        self.runs.drain(..self.runs.len().saturating_sub(MAX_RUNS));
        Ok(())
    }

    /// Returns the place of the run whose step is due first.
    fn next_run(&self) -> Option<usize> {
        (0..self.runs.len()).min_by_key(|place| self.runs[*place].1)
    }

    fn schedule_ring(&mut self) {
        let mut counts = WorkerStats::default();
        self.queues
            .iter()
            .for_each(|state| state.counts.add_to(&mut counts));
        let worked = counts.done + counts.retried + counts.dead + counts.snoozed + counts.outages;
        let idle = worked == self.worked_at_last_turn;
        self.ring_at = from_now(if idle { RING_EVERY_IDLE } else { RING_EVERY });
        self.worked_at_last_turn = worked;
    }

    /// Turns the ring. Records for the fetcher where new jobs go and how much is ready.
    fn turn_ring(&mut self) -> Result<()> {
        let stragglers = self.health(Chore::Ring).bound(STRAGGLERS);
        let state = Arc::clone(self.state);
        self.call("turn the ring", move |session| {
            for _ in 0..RING_STEPS {
                let given: [sql::Parameter<'_>; 2] = [&SEGMENT_BYTES, &stragglers];
                let row = session.query_one("turn the ring", &sql::TURN_RING, &given)?;
                let (segment, bytes) = (row.get("segment"), row.get("bytes"));
                state.shared.ring.segment.store(segment, Ordering::Relaxed);
                state
                    .shared
                    .ring
                    .ready_bytes
                    .store(bytes, Ordering::Relaxed);
                match row.get("step") {
                    "nothing" => break,
                    step => log::debug!("{state}: ring: {step}"),
                }
            }
            Ok(())
        })
    }

    /// Applies retention to a batch of letters.
    fn retain(&mut self) -> Result<()> {
        // Letters may be so large that a whole batch exceeds the statement timeout.
        let most = self.health(Chore::Retention).bound(RETAIN_BATCH);
        let retain = move |session: &mut Session| retain_a_batch(session, most);
        if !self.call("apply retention", retain)? {
            self.retain_at = from_now(RETAIN_EVERY);
        }
        Ok(())
    }

    /// Runs one step of a redrive run. Steps are small, so that the other chores and runs do not wait. Drops a
    /// run that has ended, has another driver, or fails: it is found again once its lease ends.
    fn drive(&mut self, place: usize) -> Result<()> {
        let Some((mut run, _)) = self.runs.remove(place) else {
            return Ok(());
        };
        let (run, status) = self.call("drive a redrive run", move |session| {
            let status = run.step(session)?;
            Ok((run, status))
        })?;
        if let DriveStatus::Running(wait) = status {
            self.runs.insert(place, (run, from_now(wait)));
        }
        Ok(())
    }

    /// Writes the counts of the chores. If that fails, they are written with the next ones.
    fn write_tallies(&mut self) {
        let (tallies, queue) = (self.tallies.clone(), self.state.queue().to_owned());
        let written = self.call("count the chore runs", move |session| {
            tallies.write(session, &queue)
        });
        match written {
            Ok(()) => self.tallies = ChoreTallies::default(),
            Err(error) => log::debug!("{}: {error}", self.state),
        }
    }

    fn call<T: Send + 'static>(
        &mut self,
        doing: &str,
        work: impl FnOnce(&mut Session) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let timeout = call_timeout(self.state);
        self.db_caller.call(doing, timeout, work)
    }
}
