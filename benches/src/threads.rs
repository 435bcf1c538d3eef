//! Work on several threads.

use crate::Outcome;

/// Works on all items at once, with one thread for each.
pub fn in_threads<T: Send>(
    items: impl IntoIterator<Item = T>,
    work: impl Fn(T) -> Outcome + Sync,
) -> Outcome {
    let work = &work;
    std::thread::scope(|scope| {
        let threads: Vec<_> = items
            .into_iter()
            .map(|item| scope.spawn(move || work(item)))
            .collect();
        threads
            .into_iter()
            .try_for_each(|thread| thread.join().map_err(|_| "a thread panicked")?)
    })
}
