//! Handlers that exceed their deadlines, or end at them.

use std::time::Duration;

use super::{MS, SECOND};
use crate::Backoff;
use crate::environment::{End, Environment, SLOTS};
use crate::scenario::random_time;
use crate::sync::thread;

/// A handler exceeds its deadline, and the stop does not wait for it.
pub fn overrun() {
    let env = Environment::new(4, 4 * MS);
    let worker = env.worker(|id| match id {
        2 => (3 * SECOND, End::Done),
        _ => (random_time(10 * MS), End::Done),
    });
    let worker = worker.deadline(200 * MS).start();
    let worker = worker.expect("a worker");
    thread::sleep(random_time(800 * MS));
    env.end(worker, random_time(100 * MS));
}

/// A handler ends at its deadline, while the watchdog replaces the other slot. Its slot either
/// continues or is replaced.
pub fn end_at_deadline() {
    // A quick job first, so that the worker claims more jobs than it has slots.
    let env = Environment::new(1, 4 * MS);
    let worker = env
        .worker(|id| match id {
            1 => (Duration::ZERO, End::Done),
            2 => (SECOND, End::Done),
            3 => (200 * MS, End::Done),
            _ => (100 * MS, End::Done),
        })
        .deadline(200 * MS)
        .backoff(Backoff::fixed(60 * SECOND))
        .start()
        .expect("a worker");
    for jobs in [vec![2, 3], vec![4, 5, 6, 7]] {
        thread::sleep(2 * SECOND);
        env.server.enqueue(&jobs, env.server.has_waiting_worker());
    }
    thread::sleep(SECOND);
    let most = env.most_running();
    assert!(most <= SLOTS, "{most} handlers ran at once");
    env.end(worker, SECOND);
}
