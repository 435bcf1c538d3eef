//! Redrives of selected letters.

mod concurrency;
mod delay;
mod letters;
mod loops;
mod selection;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use redrive::{Failure, Job, Queue, Worker};
use redrive_tests::{Begin, Order, TestDatabase, worker};

/// A worker whose handler fails until it is fixed.
fn fixable(queue: &Queue) -> (Worker, Arc<AtomicBool>) {
    let fixed = Arc::new(AtomicBool::new(false));
    let worker = worker(queue)
        .handle({
            let fixed = Arc::clone(&fixed);
            move |_: &Job<Order>| {
                if fixed.load(Ordering::SeqCst) {
                    Ok(())
                } else {
                    Err(Failure::retry("still broken"))
                }
            }
        })
        .started();
    (worker, fixed)
}

/// Returns how often each id is live.
fn live(test: &TestDatabase) -> BTreeMap<i64, usize> {
    let mut live = BTreeMap::new();
    for row in test
        .client()
        .query("SELECT id FROM redrive.live_jobs", &[])
        .unwrap()
    {
        *live.entry(row.get(0)).or_default() += 1;
    }
    live
}
