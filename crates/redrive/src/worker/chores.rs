//! Does the chores that workers share, in small steps and without a leader.
//!
//! Each [chore](super::chore) is a statement that locks what it takes, so two workers may do it at once. One query every third
//! of a lease returns the chores that are due and the time of the next tick of a schedule. An idle worker sends hardly
//! any other. A chore that fails is logged, counted and backs off alone.

mod age;
mod reap;
mod unhandled;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use uuid::Uuid;

use crate::db::ask::{one, rows};
use crate::db::caller::DbCaller;
use crate::db::column::Given;
use crate::db::durability::{self, durability_warnings};
use crate::db::row::FromRow;
use crate::db::session::Session;
use crate::db::sql;
use crate::dlq::retention::RETAIN_BATCH;
use crate::dlq::runs::{DriveStatus, Steps, find_run};
use crate::error::{Error, Result};
use crate::job::wait::from_now;
use crate::pipeline::buckets;
use crate::pipeline::tallies::{Tallies, observed};
use crate::schedule::tick::run_schedules;
use crate::sync::Instant;
use crate::sync::atomic::Ordering;
use crate::sync::channel::select;
use crate::worker::chore::{Chore, Task};
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
        // A look always has a time.
        let next = chores.tasks.values().filter_map(Task::at).min();
        let next = next.unwrap_or_else(Instant::now);
        let pause = next.saturating_duration_since(Instant::now());
        select! {
            recv(over) -> _ => {
                chores.write_tallies();
                return;
            }
            recv(queues.first().shared.schedules.rung) -> _ => chores.set_due(Chore::Schedules, Instant::now()),
            default(pause) => {}
        }
    }
}

/// The chores of a worker and when they are next due.
struct Chores<'a> {
    queues: &'a Queues,
    /// The queue that speaks for all.
    state: &'a Arc<State>,
    db_caller: DbCaller,
    tasks: BTreeMap<Chore, Task>,
    /// The runs of chores that are not counted in the database yet.
    tallies: Tallies<'static>,
    /// Whether one of them failed or did work. Otherwise an idle worker writes nothing.
    has_work: bool,
    worked_at_last_turn: u64,
    /// When each kind was first seen that no live worker handles, by queue.
    unhandled: Vec<HashMap<String, Instant>>,
    /// The redrive runs driven here and when the next step of each is due, in the order in which they were found.
    runs: Vec<(Steps, Instant)>,
    /// Whether the last look found runs without a driver.
    finds_runs: bool,
}

impl<'a> Chores<'a> {
    fn new(queues: &'a Queues, db_caller: DbCaller) -> Chores<'a> {
        let now = Instant::now();
        let mut chores = Chores {
            queues,
            state: queues.first(),
            db_caller,
            tasks: BTreeMap::new(),
            tallies: Tallies::default(),
            has_work: false,
            worked_at_last_turn: 0,
            unhandled: queues.iter().map(|_| HashMap::new()).collect(),
            runs: Vec::new(),
            finds_runs: false,
        };
        // Spreads the workers over time.
        let first = check_interval(queues.lease()).mul_f64(fastrand::f64());
        chores.set_due(Chore::Look, now + first);
        chores.set_due(Chore::Ring, now + RING_EVERY);
        // A tick may have been missed while no worker ran.
        chores.set_due(Chore::Schedules, now);
        chores
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

    fn task(&mut self, chore: Chore) -> &mut Task {
        self.tasks.entry(chore).or_default()
    }

    fn set_due(&mut self, chore: Chore, at: Instant) {
        self.task(chore).due = Some(at);
    }

    fn run_due(&mut self) {
        let is_due = |chores: &mut Self, chore| {
            let at = chores.task(chore).at();
            at.is_some_and(|at| at <= Instant::now())
        };
        let looks = is_due(self, Chore::Look);
        // A tick does not wait for a look.
        for chore in [Chore::Schedules].into_iter().chain(Chore::ALL) {
            if is_due(self, chore) {
                self.attempt(chore);
            }
        }
        if looks {
            self.write_tallies();
        }
    }

    /// Runs a chore. A failure concerns this chore alone.
    fn attempt(&mut self, chore: Chore) {
        let begun = Instant::now();
        self.task(chore).due = None;
        let result = self.perform(chore);
        let ended = Instant::now();
        let took = observed(buckets::CHORE, (ended - begun).as_secs_f64());
        let (nil, label) = (Uuid::nil(), Some(chore.as_str()));
        self.tallies.add(nil, "chore", label, None, Some(took));
        self.has_work |= result.is_err() || !chore.is_rest();
        match result {
            Ok(()) => self.task(chore).succeeded(),
            Err(error) => {
                self.tallies.add(nil, "chore_failed", label, None, None);
                let pause = self.task(chore).failed(chore, ended);
                self.state.report_error(&error, pause);
            }
        }
    }

    fn perform(&mut self, chore: Chore) -> Result<()> {
        match chore {
            Chore::Look => self.look(),
            Chore::Schedules => self.tick(),
            Chore::Compact => self.compact(),
            Chore::Reap => self.reap(),
            Chore::FoldLetters => {
                self.fold(chore, "fold the counts of letters", &sql::FOLD_LETTERS)
            }
            Chore::FoldRuns => self.fold(chore, "fold the counts of runs", &sql::FOLD_RUNS),
            Chore::FoldCounters => self.fold(chore, "fold the counters", &sql::FOLD_METRICS),
            Chore::Retention => self.retain(),
            Chore::Buckets => self.fold(chore, "forget buckets", &sql::FORGET_FULL_BUCKETS),
            Chore::Runs => self.run_runs(),
            Chore::Ring => self.turn_ring(),
            Chore::Unhandled => self.look_for_unhandled(),
            Chore::Age => self.in_each_queue(Self::age_priorities),
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

    /// Learns which chores are due, and when the next schedule ticks.
    fn look(&mut self) -> Result<()> {
        let (all, now) = (self.queues, Instant::now());
        self.set_due(Chore::Look, now + check_interval(all.lease()));
        let given: [&dyn Given; 2] = [&all.ids(), &all.lease()];
        let (due, next): (Vec<String>, Option<Duration>) =
            self.ask("look for chores", &sql::CHORES, &given)?;
        self.task(Chore::Schedules).due = next.map(from_now);
        let mut states = all.iter();
        let ages = states.any(|state| state.config.age_priorities.is_some());
        for chore in Chore::ALL {
            let is_due = due.iter().any(|name| name == chore.as_str())
                || chore == Chore::Unhandled
                || chore == Chore::Age && ages;
            if is_due {
                self.set_due(chore, now);
            }
            self.finds_runs |= is_due && chore == Chore::Runs;
        }
        Ok(())
    }

    /// Runs the schedules that tick now, and learns when the next one does.
    fn tick(&mut self) -> Result<()> {
        let next = self.call("run the schedules", run_schedules)?;
        self.task(Chore::Schedules).due = next.map(from_now);
        Ok(())
    }

    /// Rewrites tables until none is due or the time is used up.
    fn compact(&mut self) -> Result<()> {
        let begun = Instant::now();
        while begun.elapsed() < CHORE_BUDGET {
            match self.ask("compact a table", &sql::COMPACT, &[])? {
                Some::<String>(table) => log::debug!("{}: compacted {table}", self.state),
                None => break,
            }
        }
        Ok(())
    }

    /// Folds rows into totals, or deletes them, until none are left or the time is used up.
    fn fold(&mut self, chore: Chore, doing: &str, sql: &'static sql::Sql) -> Result<()> {
        let rows = self.task(chore).bound(FOLD_ROWS);
        let folded = self.repeat(doing, Instant::now(), rows.into(), sql, &[&rows]);
        folded.map(drop)
    }

    /// Repeats a statement that changes up to `most` rows until it changes fewer, or its chore, which began at `begun`, has
    /// used up its time. Returns how many rows it has changed.
    fn repeat(
        &mut self,
        doing: &str,
        begun: Instant,
        most: i64,
        sql: &'static sql::Sql,
        given: &[&dyn Given],
    ) -> Result<i64> {
        let mut all = 0;
        while begun.elapsed() < CHORE_BUDGET {
            let changed: i64 = self.ask(doing, sql, given)?;
            all += changed;
            if changed < most {
                break;
            }
        }
        Ok(all)
    }

    /// Takes runs without a driver. A run may wait for hours, so if they are too many, those that were found first are
    /// dropped. Once the lease of its driver ends, a run is found again, after those that were driven less recently.
    fn find_runs(&mut self) -> Result<()> {
        let found = self.call("find redrive runs", |session| {
            let found = std::iter::from_fn(|| find_run(session).transpose());
            found.take(MAX_RUNS).collect::<Result<Vec<Steps>>>()
        })?;
        let now = Instant::now();
        self.runs.extend(found.into_iter().map(|run| (run, now)));
        self.runs.drain(..self.runs.len().saturating_sub(MAX_RUNS));
        Ok(())
    }

    /// Turns the ring. Records for the fetcher where new jobs go and how much is ready.
    fn turn_ring(&mut self) -> Result<()> {
        let mut counts = WorkerStats::default();
        self.queues
            .iter()
            .for_each(|state| state.counts.add_to(&mut counts));
        let worked = counts.done + counts.retried + counts.dead + counts.snoozed + counts.outages;
        let every = match std::mem::replace(&mut self.worked_at_last_turn, worked) == worked {
            true => RING_EVERY_IDLE,
            false => RING_EVERY,
        };
        self.set_due(Chore::Ring, from_now(every));
        let stragglers = self.task(Chore::Ring).bound(STRAGGLERS);
        let state = self.state;
        for _ in 0..RING_STEPS {
            let (step, segment, bytes): (String, i16, i64) = self.ask(
                "turn the ring",
                &sql::TURN_RING,
                &[&SEGMENT_BYTES, &stragglers],
            )?;
            let ring = &state.shared.ring;
            ring.segment.store(segment, Ordering::Relaxed);
            ring.ready_bytes.store(bytes, Ordering::Relaxed);
            if step == "nothing" {
                break;
            }
            log::debug!("{state}: ring: {step}");
        }
        Ok(())
    }

    /// Applies retention to a batch of letters.
    fn retain(&mut self) -> Result<()> {
        // Letters may be so large that a whole batch exceeds the statement timeout.
        let most = self.task(Chore::Retention).bound(RETAIN_BATCH);
        let nobody = None::<&str>;
        let given: [&dyn Given; 4] = [&i64::from(most), &"skip", &nobody, &nobody];
        // `None`: another worker is applying the rules.
        let taken: Option<i64> = self.ask("apply retention", &sql::APPLY_RETENTION, &given)?;
        if taken.is_none_or(|taken| taken == 0) {
            self.task(Chore::Retention).rests_until = Some(from_now(RETAIN_EVERY));
        }
        Ok(())
    }

    /// Takes runs that a look has found, and runs a step of one.
    fn run_runs(&mut self) -> Result<()> {
        if std::mem::take(&mut self.finds_runs) {
            self.find_runs()?;
        }
        let driven = self.drive();
        self.task(Chore::Runs).due = self.runs.iter().map(|(_, at)| *at).min();
        driven
    }

    /// Runs the step of a redrive run that is due first. Steps are small, so that the other chores and runs do not wait.
    /// Drops a run that has ended, has another driver, or fails: it is found again once its lease ends.
    fn drive(&mut self) -> Result<()> {
        let runs = (0..self.runs.len()).map(|place| (self.runs[place].1, place));
        let Some((_, place)) = runs.min().filter(|(at, _)| *at <= Instant::now()) else {
            return Ok(());
        };
        let (mut run, _) = self.runs.remove(place);
        let (run, status) = self.call("drive a redrive run", move |session| {
            let status = run.step(session)?;
            Ok((run, status))
        })?;
        if let DriveStatus::Running(wait) = status {
            self.runs.insert(place, (run, from_now(wait)));
        }
        Ok(())
    }

    /// Counts the runs of the chores in the database. If that fails, they are counted with the next ones.
    fn write_tallies(&mut self) {
        if !self.has_work {
            return;
        }
        let (queue, its) = (self.state.queue(), std::mem::take(&mut self.tallies));
        let given: [&dyn Given; 6] = [
            &queue,
            &its.keys,
            &its.labels,
            &its.buckets,
            &its.counts,
            &its.sums,
        ];
        let doing = "count the chore runs";
        match self.call(doing, rows(doing, &sql::COUNT_CHORES, &given)) {
            Ok(_) => self.has_work = false,
            Err(error) => {
                log::debug!("{}: {error}", self.state);
                self.tallies = its;
            }
        }
    }

    fn ask<T: FromRow + Send + 'static>(
        &mut self,
        doing: &str,
        sql: &'static sql::Sql,
        given: &[&dyn Given],
    ) -> Result<T> {
        self.call(doing, one(doing, sql, given))
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
