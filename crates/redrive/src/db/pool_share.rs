//! Counts what workers hold of a pool: some connections each, and one for each handler in a transaction.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::error::{Error, Result};

/// The workers of a pool.
#[derive(Clone, Debug, Default)]
pub(crate) struct PoolShares(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    held: Mutex<Held>,
    freed: Condvar,
}

#[derive(Debug, Default)]
struct Held {
    /// The number of workers.
    workers: u32,
    /// Connections of all workers.
    by_workers: u32,
    /// Connections of handlers in transactions.
    by_handlers: u32,
}

impl Held {
    /// Returns how many connections handlers in transactions may hold: those that no worker needs, except one for other
    /// calls.
    fn left(&self, connections: u32) -> u32 {
        let left = connections.saturating_sub(self.by_workers.saturating_add(1));
        left.max(1)
    }
}

/// A worker that holds connections of a pool, until it is dropped.
#[derive(Debug)]
pub(crate) struct PoolShare {
    shares: PoolShares,
    connections: u32,
}

/// A connection of a pool for a handler in a transaction, until it is dropped.
#[derive(Debug)]
pub(crate) struct HandlerShare(PoolShares);

impl PoolShares {
    /// Admits a worker to a pool of `connections`, unless all workers together need more.
    pub(crate) fn admit(&self, each_needs: u32, connections: u32) -> Result<PoolShare> {
        let mut held = self.held();
        let needed = held.by_workers.saturating_add(each_needs);
        if needed > connections {
            let all = held.workers + 1;
            return Err(Error::invalid(format!(
                "{all} workers need {needed} of the pool's {connections} connections"
            )));
        }
        held.workers += 1;
        held.by_workers = needed;
        Ok(PoolShare {
            shares: self.clone(),
            connections: each_needs,
        })
    }

    /// Returns how many handlers in transactions may run at a time in all workers: at least one.
    pub(crate) fn handlers(&self, connections: u32) -> u32 {
        self.held().left(connections)
    }

    /// Takes a connection for a handler in a transaction. Otherwise the handlers of all workers could wait for each
    /// other's connections, and for those of the calls in them.
    pub(crate) fn admit_handler(&self, connections: u32, wait: Duration) -> Result<HandlerShare> {
        let is_full = |held: &mut Held| held.by_handlers >= held.left(connections);
        let waited = self.0.freed.wait_timeout_while(self.held(), wait, is_full);
        let (mut held, waited) = waited.unwrap_or_else(PoisonError::into_inner);
        if waited.timed_out() {
            let running = held.by_handlers;
            return Err(Error::unavailable(format!(
                "could not get a connection to the database: {running} handlers in transactions run, and the other \
                 connections of the pool are for workers and calls"
            )));
        }
        held.by_handlers += 1;
        Ok(HandlerShare(self.clone()))
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        // A panic cannot leave the counts inconsistent.
        self.0.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for PoolShare {
    fn drop(&mut self) {
        let mut held = self.shares.held();
        held.workers -= 1;
        held.by_workers -= self.connections;
        self.shares.0.freed.notify_all();
    }
}

impl Drop for HandlerShare {
    fn drop(&mut self) {
        self.0.held().by_handlers -= 1;
        self.0.0.freed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workers_are_admitted_while_the_pool_has_connections() {
        let pool = PoolShares::default();
        let two = [(); 2].map(|()| pool.admit(5, 12).expect("10 of 12"));
        let error = pool.admit(5, 12).expect_err("15 of 12");
        let said = "3 workers need 15 of the pool's 12 connections";
        assert!(error.is_invalid() && error.to_string() == said, "{error}");
        drop(two);
        let one = pool.admit(5, 12).expect("5 of 12");
        assert!(pool.admit(u32::MAX, 12).is_err());
        drop(one);
        assert!(pool.admit(12, 12).is_ok());
    }

    #[test]
    fn handlers_of_all_workers_share_what_the_workers_leave() {
        let pool = PoolShares::default();
        let none = Duration::ZERO;
        let one = pool.admit(5, 13).expect("5 of 13");
        assert_eq!(pool.handlers(13), 7);
        let two = pool.admit(5, 13).expect("10 of 13");
        assert_eq!(pool.handlers(13), 2, "one is for other calls");
        let first = pool.admit_handler(13, none).expect("the first");
        let second = pool.admit_handler(13, none).expect("the second");
        let error = pool.admit_handler(13, none).expect_err("the third");
        assert!(error.is_unavailable(), "{error}");
        std::thread::scope(|scope| {
            let third = scope.spawn(|| pool.admit_handler(13, Duration::MAX));
            drop(first);
            drop(third.join().expect("no panic").expect("a free one"));
        });
        drop((one, two, second));
        let _all = pool.admit(13, 13).expect("all of 13");
        assert_eq!(pool.handlers(13), 1, "or it would never run");
    }
}
