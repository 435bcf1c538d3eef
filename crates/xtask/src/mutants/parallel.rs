//! Work on several threads.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use anyhow::Result;

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
            let mut results = results.lock().unwrap_or_else(PoisonError::into_inner);
            results.push((at, result));
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

#[cfg(test)]
mod tests {
    use anyhow::ensure;

    use super::*;

    #[test]
    fn results_have_the_order_of_the_items_and_an_error_ends_the_work() {
        let items: Vec<usize> = (0..100).collect();
        let doubled = in_parallel(vec![(), (), ()], &items, |(), item| Ok(item * 2));
        let expected: Vec<usize> = items.iter().map(|item| item * 2).collect();
        assert_eq!(doubled.expect("no error"), expected);

        let calls = AtomicUsize::new(0);
        let failed = in_parallel(vec![()], &items, |(), item| {
            calls.fetch_add(1, Ordering::Relaxed);
            ensure!(*item != 3, "three");
            Ok(())
        });
        assert_eq!(failed.expect_err("it fails").to_string(), "three");
        assert_eq!(calls.load(Ordering::Relaxed), 4);
    }
}
