//! Enforces deadlines and lease expiry on a thread that does not use the database, because it stops handlers whose
//! jobs may already belong to another worker.
//!
//! It also gives jobs that wait behind a slow one to the other slots, releases them if all slots are slow, sends the
//! verdicts of slots that run slow ones, and starts the batches that are due while the fetcher waits for the database.

use std::iter;
use std::sync::Arc;
use std::time::Duration;

use crate::pipeline::claim::demand::SLOW;
use crate::pipeline::outcome::Outcome;
use crate::sync::Instant;
use crate::sync::atomic::Ordering;
use crate::sync::channel::RecvTimeoutError;
use crate::worker::gatherer::start_due;
use crate::worker::handlers::decided;
use crate::worker::latch::{LatchReceiver, lock};
use crate::worker::queues::Queues;
use crate::worker::settler::Message;
use crate::worker::slot::{self, SlotContext, SlotPool};
use crate::worker::slot_state::{Chunk, Run, SlotState, TakenBy};

/// The check interval, and so how late a deadline may be noticed.
const CHECK_INTERVAL: Duration = Duration::from_millis(100);

/// The checks in a row with more overdue handlers than slots after which they count as stuck.
///
/// It counts checks, not time: when a machine stalls, all handlers exceed their deadlines at once,
/// and need the processor before they can see that they were asked to stop.
const CHECKS_BEFORE_STUCK: u32 = 10;

/// Watches the slots of all queues until the worker ends.
pub(crate) fn work(queues: &Queues, pools: Vec<SlotPool>, over: &LatchReceiver) {
    let watched = pools.into_iter().map(|pool| Watched {
        pool,
        crowded_checks: 0,
    });
    let mut watched: Vec<Watched> = watched.collect();
    let mut trusted = true;
    while over.recv_timeout(CHECK_INTERVAL) == Err(RecvTimeoutError::Timeout) {
        let now = Instant::now();
        // One renewal keeps the leases of all queues.
        let trusts = queues.iter().all(|state| state.trust.holds(now));
        if trusted && !trusts {
            let jobs: usize = queues.iter().map(|state| state.in_flight()).sum();
            log::error!(
                "{}: lease not renewed in time; cancelling its {jobs} jobs",
                queues.first()
            );
        }
        trusted = trusts;
        for it in &mut watched {
            it.check(now);
        }
    }
}

/// The slots of a queue, or of several that share them.
struct Watched {
    pool: SlotPool,
    /// Checks in a row with more overdue handlers than slots.
    crowded_checks: u32,
}

impl Watched {
    fn check(&mut self, now: Instant) {
        let pool = &self.pool;
        for slot_state in pool.slots().all() {
            // A copy, so that no lock is held while it is handled.
            let Some(run) = lock(&slot_state.running).clone() else {
                continue;
            };
            let (first, ran, deadline) = (&run.first, run.ran(now), run.deadline);
            let context = &pool.queues[run.queue];
            slot::send_verdicts(pool, &slot_state);
            if ran >= SLOW {
                slot::displace(pool, &slot_state);
            }
            if ran >= deadline || !context.state.trust.holds(now) {
                for running in run.jobs() {
                    running.signal.cancelled.store(true, Ordering::Relaxed);
                }
            }
            // The thread cannot be stopped. Its jobs are judged without it, unless they just ended, and a
            // new thread takes over the slot.
            if ran < deadline || !run.take(TakenBy::Watchdog) {
                continue;
            }
            log::error!(
                "{} job={}: exceeded its deadline of {deadline:?}{}",
                context.state,
                first.meta.id,
                match run.size() {
                    1 => String::new(),
                    jobs => format!(", with a batch of {jobs} jobs"),
                }
            );
            conclude(context, &slot_state, &run, now);
            context.state.shared.left.ring();
        }
        self.replace_overdue();
        let (users, jobs) = (self.pool.users(), &self.pool.slots().jobs);
        // At a stop, the fetcher hands them back.
        for context in users.filter(|it| !it.state.shared.stopping.is_set()) {
            start_due(&context.state, |batch| jobs.give_back(iter::once(batch)));
        }
        give_back(&self.pool, now);
    }

    /// Starts slots in place of those whose handlers are overdue. Fails the worker if too many of them do not end.
    fn replace_overdue(&mut self) {
        let (pool, threads) = (&self.pool, self.pool.slots().all());
        let (slots, is_overdue) = (pool.slots().count, |it: &&Arc<SlotState>| it.is_replaced());
        let overdue = threads.iter().filter(is_overdue).count();
        self.crowded_checks = crowded(self.crowded_checks, slots, overdue);
        // No job starts after a stop, and it waits for no overdue handler.
        if pool.state().shared.stopping.is_set() {
            return;
        }
        if self.crowded_checks >= CHECKS_BEFORE_STUCK {
            pool.state().fail(format!(
                "{overdue} handlers exceeded their deadlines and do not end (slots: {slots})"
            ));
            return;
        }
        for _ in 0..missing(slots, threads.len(), overdue) {
            if let Err(error) = slot::start(pool) {
                let cause = format!("could not replace a slot: {error}");
                pool.state().fail(cause);
            }
        }
    }
}

/// Returns how many threads a worker with so many slots lacks, of whose threads so many are overdue. Each of those is
/// replaced, but there are never more threads than twice the slots. Pure.
fn missing(slots: usize, threads: usize, overdue: usize) -> usize {
    (slots + overdue.min(slots)).saturating_sub(threads)
}

/// Returns the checks in a row with more overdue handlers than slots, after `before` and one more check. Pure.
fn crowded(before: u32, slots: usize, overdue: usize) -> u32 {
    match overdue > slots {
        true => before + 1,
        false => 0,
    }
}

/// Releases the waiting jobs while every slot runs a slow one, because another worker may have a
/// free slot. The queues claim no more until one of these ends.
fn give_back(pool: &SlotPool, now: Instant) {
    // `None`: a slot is free and takes the waiting jobs.
    let slots = pool.slots().all();
    let since: Option<Vec<Instant>> = slots.iter().map(|it| it.running_since()).collect();
    let latest = since.and_then(|since| since.into_iter().max());
    let hold_for = pool.users().map(|context| context.state.config.hold_for);
    let hold_for = hold_for.min().unwrap_or_default();
    let least = latest.map(|at| now.saturating_duration_since(at));
    let least = least.filter(|least| *least >= hold_for);
    // First, or the fetcher claims them again.
    let are_stuck = &pool.slots().are_stuck;
    are_stuck.store(least.is_some(), Ordering::Relaxed);
    let Some(least) = least.filter(|_| !pool.slots().jobs.is_empty()) else {
        return;
    };
    pool.users()
        .for_each(|context| context.state.raise_run_time(least));
    while let Some((queue, chunk)) = pool.slots().jobs.try_take() {
        let (counted, jobs) = match chunk {
            Chunk::OneByOne(jobs) => (jobs.len(), jobs),
            // A batch counts as one job.
            Chunk::Together(jobs) => (1, jobs),
        };
        let context = &pool.queues[queue];
        slot::return_unstarted(context, &jobs);
        let in_flight = &context.state.user.in_flight;
        in_flight.fetch_sub(counted, Ordering::Relaxed);
    }
}

/// Judges the jobs of an overdue handler. Keeps its decisions about jobs of a batch.
fn conclude(context: &SlotContext, slot_state: &SlotState, run: &Run, now: Instant) {
    for running in run.jobs() {
        let end = decided(&running.signal).unwrap_or_else(|| Err(Outcome::timed_out(run.deadline)));
        slot::conclude(context, slot_state, run, running, end, now);
        if let Some(open) = running.signal.transaction.get() {
            context.tell(Message::EndTransaction(*open));
        }
    }
    context.state.count_finished(Some(run.ran(now)));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overdue_slots_are_replaced_up_to_twice_their_number() {
        for (threads, overdue, expected) in [
            (3, 0, 0),
            (3, 1, 1),
            (4, 1, 0),
            (3, 3, 3),
            // Three are overdue and three run; a fourth waits until one ends.
            (6, 4, 0),
            (5, 3, 1),
            (6, 6, 0),
            (5, 5, 1),
            // One has ended that still counts as a thread.
            (4, 0, 0),
        ] {
            let started = missing(3, threads, overdue);
            assert_eq!(started, expected, "{threads} threads, {overdue} overdue");
        }
    }

    #[test]
    fn a_stall_that_ends_leaves_the_worker_running() {
        let after = |overdue: &[usize]| overdue.iter().fold(0, |n, it| crowded(n, 2, *it));
        assert_eq!(after(&[2; 20]), 0, "as many as slots may wait");
        assert_eq!(after(&[4; 9]), CHECKS_BEFORE_STUCK - 1);
        assert_eq!(after(&[4, 4, 4, 2, 3]), 1, "the count starts again");
        assert_eq!(after(&[3; 10]), CHECKS_BEFORE_STUCK);
    }
}
