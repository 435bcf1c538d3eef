//! Redrives of selected letters.

mod concurrency;
mod delay;
mod letters;
mod loops;
mod selection;

use redrive_tests::prelude::*;

use super::runs::live;

/// A worker whose handler fails until it is fixed.
fn fixable(queue: &Queue) -> (Worker, Arc<AtomicBool>) {
    let fixed = Arc::new(AtomicBool::new(false));
    let worker = worker(queue).runs({
        let fixed = Arc::clone(&fixed);
        move |_: &Job<Order>| match fixed.load(Ordering::SeqCst) {
            true => Ok(()),
            false => Err(Failure::retry("still broken")),
        }
    });
    (worker, fixed)
}
