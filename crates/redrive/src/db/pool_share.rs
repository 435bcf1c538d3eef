//! Counts the workers that share a pool, because each holds connections of it.

use std::sync::Arc;

use crate::error::{Error, Result};
use crate::sync::atomic::{AtomicU32, Ordering};

/// The workers of a pool.
#[derive(Clone, Debug, Default)]
pub(crate) struct PoolShares(Arc<AtomicU32>);

/// Workers that hold connections of a pool, until it is dropped.
#[derive(Debug)]
pub(crate) struct PoolShare {
    all: PoolShares,
    workers: u32,
}

impl PoolShares {
    /// Admits workers to a pool of `connections`, unless all workers together need more.
    pub(crate) fn admit(
        &self,
        workers: u32,
        each_needs: u32,
        connections: u32,
    ) -> Result<PoolShare> {
        let before = self.0.fetch_add(workers, Ordering::SeqCst);
        let share = PoolShare {
            all: self.clone(),
            workers,
        };
        let all = before.saturating_add(workers);
        match all.saturating_mul(each_needs) {
            needed if needed <= connections => Ok(share),
            needed => Err(Error::invalid(format!(
                "{all} workers need {needed} of the pool's {connections} connections"
            ))),
        }
    }
}

impl Drop for PoolShare {
    fn drop(&mut self) {
        self.all.0.fetch_sub(self.workers, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workers_are_admitted_while_the_pool_has_connections() {
        let pool = PoolShares::default();
        let two = pool.admit(2, 5, 12).expect("10 of 12");
        let error = pool.admit(1, 5, 12).expect_err("15 of 12");
        let said = "3 workers need 15 of the pool's 12 connections";
        assert!(error.is_invalid() && error.to_string() == said, "{error}");
        drop(two);
        let one = pool.admit(1, 5, 12).expect("5 of 12");
        assert!(pool.admit(2, 5, 12).is_err());
        drop(one);
        assert!(pool.admit(u32::MAX, 5, 12).is_err());
    }
}
