//! Work on several threads.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;

use anyhow::Result;

/// Locks a mutex. A panic ends only the work on its item.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Calls `work` for each item, on as many threads as there are places, each with its place. Returns
/// the results in the order of the items. The first error ends the work.
pub(super) fn in_parallel<P: Send, T: Sync, R: Send>(
    places: Vec<P>,
    items: &[T],
    work: impl Fn(&mut P, &T) -> Result<R> + Sync,
) -> Result<Vec<R>> {
    let next = AtomicUsize::new(0);
    let results = Mutex::new(Vec::new());
    let run = |mut place: P| {
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(item) = items.get(at) else { break };
            let result = work(&mut place, item);
            if result.is_err() {
                next.store(items.len(), Ordering::Relaxed);
            }
            lock(&results).push((at, result));
        }
    };
    thread::scope(|scope| {
        let run = &run;
        for place in places {
            scope.spawn(move || run(place));
        }
    });
    let mut results = results.into_inner().unwrap_or_else(PoisonError::into_inner);
    results.sort_by_key(|(at, _)| *at);
    results.into_iter().map(|(_, result)| result).collect()
}
