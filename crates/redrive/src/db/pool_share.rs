//! Counts the workers that share a pool, because each holds connections of it.

use std::sync::Arc;

use crate::error::{Error, Result};
use crate::sync::atomic::{AtomicU32, Ordering};

/// The workers of a pool.
#[derive(Clone, Debug, Default)]
pub(crate) struct PoolShares(Arc<AtomicU32>);

/// A worker that holds connections of a pool, until it is dropped.
#[derive(Debug)]
pub(crate) struct PoolShare(PoolShares);

impl PoolShares {
    /// Admits a worker to a pool of `connections`, unless all workers together need more.
    pub(crate) fn admit(&self, each_needs: u32, connections: u32) -> Result<PoolShare> {
        let all = self.0.fetch_add(1, Ordering::SeqCst) + 1;
        let share = PoolShare(self.clone());
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
        self.0.0.fetch_sub(1, Ordering::SeqCst);
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
}
