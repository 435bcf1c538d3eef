//! The watch: one thread without a database, that tells handlers when to end.
//!
//! It must work when the database does not: it is what stops a worker from running jobs that are
//! somebody else's by now. And it gives jobs back that were claimed with others, in the belief that
//! they are quick, and now wait behind slow ones.

use std::time::Duration;

use crate::floor::Instant;
use crate::floor::atomic::Ordering;
use crate::floor::channel::RecvTimeoutError;
use crate::judge::Outcome;
use crate::worker::slot::{self, Bench};
use crate::worker::state::{Ended, Overrun, Running, lock};

/// How often it looks: how late a deadline may be noticed, but for the first job after a rest.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// How often it looks while nothing runs: each wake-up costs an idle program something.
const LOOK_EVERY_IDLE: Duration = Duration::from_millis(250);

/// Watches until the worker is over.
pub(crate) fn work(bench: &Bench, over: &Ended) {
    let state = &bench.state;
    let pause = || match state.in_hand() {
        0 => LOOK_EVERY_IDLE,
        _ => LOOK_EVERY,
    };
    let mut stuck = 0;
    let mut trusted = true;
    while over.recv_timeout(pause()) == Err(RecvTimeoutError::Timeout) {
        let now = Instant::now();
        let trusts = state.trust.holds(now);
        if trusted && !trusts {
            log::error!(
                "worker of queue `{}` could not renew its leases in time; its jobs are told to end",
                state.queue()
            );
        }
        trusted = trusts;
        for running in running(bench) {
            if !trusts {
                running.signal.cancelled.store(true, Ordering::Relaxed);
            }
            if now.saturating_duration_since(running.started) < running.deadline {
                continue;
            }
            running.signal.cancelled.store(true, Ordering::Relaxed);
            if running.signal.replaced.swap(true, Ordering::AcqRel) {
                continue;
            }
            log::error!(
                "job {} of queue `{}` overran its deadline of {:?}",
                running.facts.id,
                state.queue(),
                running.deadline
            );
            // The thread cannot be stopped: its job is judged without it, unless it has just
            // ended or holds the lease itself; and a new thread takes its place.
            if running.overrun == Overrun::GiveAway
                && !running.signal.given_away.swap(true, Ordering::AcqRel)
            {
                slot::conclude(bench, &running, Outcome::TimedOut(running.deadline));
            }
            stuck += 1;
            if stuck > state.config.slots {
                state.fail(format!(
                    "{stuck} handlers overran their deadlines and never ended"
                ));
            } else if let Err(error) = slot::start(bench) {
                state.fail(format!("a stuck slot cannot be replaced: {error}"));
            }
        }
        stuck = stuck.min(overdue(bench));
        give_back(bench, now);
    }
}

/// Gives the jobs back that wait while every slot runs a slow one: a slot elsewhere may be free, and
/// who has to wait anyhow waits as well in the database.
fn give_back(bench: &Bench, now: Instant) {
    if bench.jobs.is_empty() {
        return;
    }
    let runs_for = |running: &Running| now.saturating_duration_since(running.started);
    let seats = lock(&bench.state.seats).clone();
    // `None`: a slot is free, and takes what waits.
    let slow: Option<Vec<Duration>> = seats
        .iter()
        .map(|seat| lock(&seat.running).as_ref().map(runs_for))
        .collect();
    let Some(least) = slow.and_then(|slow| slow.into_iter().min()) else {
        return;
    };
    if least < bench.state.config.hold_for {
        return;
    }
    // First this, or the fetcher claims them again.
    bench.state.runs_for(least);
    for claimed in bench.jobs.try_iter() {
        slot::return_unbegun(bench, &claimed);
    }
}

/// What runs now; a copy, so that no lock is held while anything is done about it.
fn running(bench: &Bench) -> Vec<Running> {
    lock(&bench.state.seats)
        .iter()
        .filter_map(|seat| lock(&seat.running).clone())
        .collect()
}

/// How many handlers run on although their slots have been replaced.
fn overdue(bench: &Bench) -> usize {
    running(bench)
        .iter()
        .filter(|running| running.signal.replaced.load(Ordering::Relaxed))
        .count()
}
