//! What the workers that share a pool know of each other: how many there are, because each holds connections of it, and
//! the suspects among their jobs.

use std::collections::HashMap;
use std::sync::Arc;

use uuid::Uuid;

use crate::error::{Error, Result};
use crate::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use crate::sync::channel::Sender;
use crate::sync::{Instant, Mutex, lock};

/// The workers of a pool.
#[derive(Clone, Debug, Default)]
pub(crate) struct PoolShares {
    count: Arc<AtomicU32>,
    pub(crate) suspects: Arc<Suspects>,
}

/// A worker that holds connections of a pool, until it is dropped.
#[derive(Debug)]
pub(crate) struct PoolShare(PoolShares);

impl PoolShares {
    /// Admits a worker to a pool of `connections`, unless all workers together need more.
    pub(crate) fn admit(&self, each_needs: u32, connections: u32) -> Result<PoolShare> {
        let all = self.count.fetch_add(1, Ordering::SeqCst) + 1;
        let share = PoolShare(self.clone());
        match all.saturating_mul(each_needs) {
            needed if needed <= connections => Ok(share),
            needed => Err(Error::invalid(format!(
                "the workers of a pool of {connections} connections need {needed}"
            ))),
        }
    }
}

impl Drop for PoolShare {
    fn drop(&mut self) {
        self.0.count.fetch_sub(1, Ordering::SeqCst);
    }
}

/// A suspect.
#[derive(Clone, Copy, Debug)]
struct Suspect {
    crashes: u32,
    /// When it no longer counts, whether it has ended or not. `None`: its worker renews its lease.
    until: Option<Instant>,
}

/// The suspects whose leases these workers hold. They run in one process, so if one of them ends it, the others are
/// blamed too.
#[derive(Debug, Default)]
pub(crate) struct Suspects {
    /// The job of each lease.
    held: Mutex<HashMap<Uuid, Suspect>>,
    /// How many times the last of them has ended.
    ended: AtomicU64,
    /// Wake the fetchers of the workers then, because a job of each may have waited for that.
    bells: Mutex<Vec<Sender<()>>>,
}

impl Suspects {
    /// Returns the most crashes of any of them.
    pub(crate) fn most_crashes(&self) -> u32 {
        most(&lock(&self.held))
    }

    /// Adds a suspect if it `fits` beside those with the most crashes. Returns whether it did.
    pub(crate) fn admit(&self, lease: Uuid, crashes: u32, fits: impl FnOnce(u32) -> bool) -> bool {
        let mut held = lock(&self.held);
        let is_admitted = fits(most(&held));
        if is_admitted {
            let until = None;
            held.insert(lease, Suspect { crashes, until });
        }
        is_admitted
    }

    /// Lets those of these leases count only until then.
    pub(crate) fn abandon(&self, leases: &[Uuid], until: Instant) {
        let mut held = lock(&self.held);
        for lease in leases {
            if let Some(suspect) = held.get_mut(lease) {
                suspect.until = Some(until);
            }
        }
    }

    /// Removes those of these leases.
    pub(crate) fn remove(&self, leases: &[Uuid]) {
        let mut held = lock(&self.held);
        for lease in leases {
            held.remove(lease);
        }
        if held.is_empty() {
            drop(held);
            self.ended.fetch_add(1, Ordering::SeqCst);
            self.ring();
        }
    }

    /// Rings this bell of a new worker whenever the last of them has ended.
    pub(crate) fn wake(&self, bell: Sender<()>) {
        // Forgets the bells of workers that have ended.
        self.ring();
        lock(&self.bells).push(bell);
    }

    fn ring(&self) {
        // A full channel means that the fetcher will look anyway.
        let is_heard = |bell: &Sender<()>| !bell.try_send(()).is_err_and(|it| it.is_disconnected());
        lock(&self.bells).retain(is_heard);
    }

    /// Returns how many times the last of them has ended.
    pub(crate) fn ended(&self) -> u64 {
        self.ended.load(Ordering::SeqCst)
    }
}

fn most(held: &HashMap<Uuid, Suspect>) -> u32 {
    let counts = |it: &&Suspect| it.until.is_none_or(|until| Instant::now() < until);
    let counted = held.values().filter(counts);
    counted.map(|it| it.crashes).max().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_suspect_of_a_dropped_worker_counts_until_its_lease_ends() {
        let suspects = PoolShares::default().suspects;
        let now = Instant::now();
        for (until, most) in [(now + Duration::from_hours(1), 2), (now, 0)] {
            let lease = Uuid::from_u128(1);
            assert!(suspects.admit(lease, 2, |most| most == 0), "{until:?}");
            suspects.abandon(&[lease, Uuid::from_u128(2)], until);
            assert_eq!(suspects.most_crashes(), most);
            suspects.remove(&[lease]);
        }
    }

    #[test]
    fn workers_are_admitted_while_the_pool_has_connections() {
        let pool = PoolShares::default();
        let two = [(); 2].map(|()| pool.admit(5, 12).expect("10 of 12"));
        let error = pool.admit(5, 12).expect_err("15 of 12");
        let said = "the workers of a pool of 12 connections need 15";
        assert!(error.is_invalid() && error.to_string() == said, "{error}");
        drop(two);
        let one = pool.admit(5, 12).expect("5 of 12");
        assert!(pool.admit(u32::MAX, 12).is_err());
        drop(one);
        assert!(pool.admit(12, 12).is_ok());
    }
}
