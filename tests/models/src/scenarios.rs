//! The scenarios, each a function that runs in many schedules. `tests/schedules.rs` lists them.

mod deadlines;

use std::time::Duration;

use crate::environment::{End, Environment, LAST_CHANCE};
use crate::scenario::{random, random_time};
use crate::server::Health;
use crate::sync::{Instant, thread};

pub use deadlines::{end_at_deadline, overrun};

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);

/// Runs for up to 30 ms and retries, is rejected or succeeds.
fn any_end(_: i64) -> (Duration, End) {
    let end = match random(6) {
        0 => End::Retry,
        1 => End::Reject,
        _ => End::Done,
    };
    (random_time(30 * MS), end)
}

/// Succeeds at once.
fn at_once(_: i64) -> (Duration, End) {
    (Duration::ZERO, End::Done)
}

/// The server is unreachable, silent or mute for a while.
fn fail(env: &Environment) {
    let health = [Health::Unreachable, Health::Silent, Health::Mute][random(3)];
    env.server.set_health(health);
    thread::sleep(random_time(8 * SECOND));
    env.server.set_health(Health::Healthy);
}

/// Jobs succeed, fail and die until all have ended. Then the worker stops.
pub fn busy() {
    let env = Environment::new(5, 4 * MS);
    let worker = env.worker(any_end).start().expect("a worker");
    env.wait_until_drained();
    let stopped = env.end(worker, SECOND);
    let tables = env.server.tables();
    let counts = stopped.stats;
    assert_eq!(counts.done, tables.done.len() as u64, "{counts:?}");
    assert_eq!(counts.dead, tables.dead.len() as u64, "{counts:?}");
    assert_eq!(counts.lost, 0, "{counts:?}");
}

/// The worker stops at any moment, with a short grace or none. It reports each handler that still runs.
pub fn stopped() {
    let env = Environment::new(6, 4 * MS);
    let worker = env.worker(any_end).start().expect("a worker");
    thread::sleep(random_time(60 * MS));
    let grace = [Duration::ZERO, random_time(20 * MS)][random(2)];
    let stopped = env.end(worker, grace);
    let (reported, running) = (stopped.still_running, env.running());
    assert!(running <= reported.len(), "{running} run, not {reported:?}");
}

/// Enqueues start and commit at any moment, for an idle worker that polls once a minute.
pub fn woken() {
    let env = Environment::new(0, 4 * MS);
    let worker = env.worker(at_once).poll_interval(60 * SECOND);
    let worker = worker.start().expect("a worker");
    let mut committed = Vec::new();
    let jobs = 1 + i64::try_from(random(2)).unwrap_or(0);
    for id in 1..=jobs {
        thread::sleep(random_time(12 * MS));
        let notify = env.server.has_waiting_worker();
        let began = Instant::now();
        thread::sleep(random_time(10 * MS));
        env.server.enqueue(&[id], notify);
        committed.push((id, began, Instant::now()));
    }
    env.wait_until_drained();
    env.stop(worker, SECOND);
    env.check();
    for (id, began, committed) in committed {
        // Twice the duration of the enqueue, and some claims.
        let limit = 2 * (committed - began) + 100 * MS;
        let waited = env.began(id).map(|at| at - committed);
        let is_soon = waited.is_some_and(|waited| waited <= limit);
        assert!(is_soon, "job {id} waited {waited:?}");
    }
}

/// Suspects among other jobs.
///
/// Most jobs are suspects, every other one on its last chance. The server is slow, so that a round
/// with two claims sometimes finds only suspects.
pub fn suspects() {
    let jobs = 12;
    let env = Environment::new(jobs, 8 * MS);
    let suspects = |rest| (1..=jobs).filter(move |id| id % 2 == rest && *id != 3 && *id != 8);
    env.make_suspects(suspects(1), LAST_CHANCE - 1);
    env.make_suspects(suspects(0), LAST_CHANCE);
    let worker = env.worker(any_end).start().expect("a worker");
    env.wait_until_drained();
    env.end(worker, SECOND);
}

/// Only suspects on their last chance, which succeed at once. Each one must follow the previous without a poll.
pub fn consecutive_suspects() {
    let jobs = 10;
    let env = Environment::new(jobs, 4 * MS);
    env.make_suspects(1..=jobs, LAST_CHANCE);
    let begin = Instant::now();
    let worker = env.worker(at_once).start().expect("a worker");
    env.wait_until_drained();
    let took = begin.elapsed();
    assert!(took < SECOND, "{jobs} suspects took {took:?}");
    env.end(worker, SECOND);
}

/// One job is slow. The others run in the other slot, and their verdicts are written, whichever slot
/// ran them. The worker stops before or after the slow job ends.
pub fn blocked_slot() {
    let env = Environment::new(12, 4 * MS);
    let slow = 1 + i64::try_from(random(12)).unwrap_or(0);
    let times = move |id| [Duration::ZERO, 3 * SECOND][usize::from(id == slow)];
    let worker = env.worker(move |id| (times(id), End::Done));
    let worker = worker.hold_for(60 * SECOND).start();
    let worker = worker.expect("a worker");
    thread::sleep(SECOND);
    let done = env.server.tables().done.len();
    assert_eq!(done, 11, "all but the slow job");
    env.end(worker, random_time(4 * SECOND));
}

/// A worker is dropped without a stop, and another one takes over.
pub fn dropped() {
    let env = Environment::new(4, 4 * MS);
    let worker = env.worker(any_end).start().expect("a worker");
    thread::sleep(random_time(60 * MS));
    drop(worker);
    let worker = env.worker(any_end).start().expect("a worker");
    env.wait_until_drained();
    env.stop(worker, SECOND);
    env.check();
}

/// The server is slow, unreachable, silent or mute at any moment, some of the time for longer than a
/// lease, under two workers.
pub fn outage() {
    let env = Environment::new(5, 4 * MS);
    let plan = |_| (random_time(400 * MS), End::Done);
    let workers = [(); 2].map(|()| env.worker(plan).start().expect("a worker"));
    for _ in 0..2 {
        thread::sleep(random_time(2 * SECOND));
        if random(2) == 0 {
            env.server.set_health(Health::Slow);
            thread::sleep(random_time(3 * SECOND));
        }
        fail(&env);
    }
    env.wait_until_drained();
    for worker in workers {
        // Its jobs may be on their way back.
        // A claim of the outage may end without an answer during the stop.
        if let Err(error) = worker.stop(SECOND) {
            let released =
                "could not release the jobs of a claim that the database has not answered";
            assert_eq!(error.to_string(), released);
        }
    }
    env.check();
    env.check_no_leases();
}

/// A large claim waits behind two slow jobs while the server is silent for longer than a lease.
pub fn lost_trust() {
    let env = Environment::new(24, 2 * MS);
    let worker = env.worker(|id| match id {
        11 | 12 => (4 * SECOND, End::Done),
        _ => (Duration::ZERO, End::Done),
    });
    let worker = worker.hold_for(60 * SECOND).start();
    let worker = worker.expect("a worker");
    thread::sleep(random_time(30 * MS));
    fail(&env);
    env.wait_until_drained();
    env.stop(worker, 5 * SECOND);
    env.check();
    env.check_no_leases();
}

/// More jobs than one claim takes, so that the second fetcher starts. The worker stops at any moment.
pub fn flood() {
    let env = Environment::new(1300, 2 * MS);
    let worker = env.worker(at_once).start().expect("a worker");
    thread::sleep(random_time(60 * MS));
    env.end(worker, random_time(20 * MS));
}
