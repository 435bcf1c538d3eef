//! Threads that begin together.

use std::sync::Barrier;
use std::thread;

/// Prepares something for each of this many threads, starts the action with it in all of them at the same time, and
/// returns their answers.
pub fn at_once<P: Send, T: Send>(
    threads: usize,
    prepare: impl Fn(usize) -> P,
    act: impl Fn(P) -> T + Sync,
) -> Vec<T> {
    let (start, act) = (&Barrier::new(threads), &act);
    // All of them, since a thread waits for the others.
    let prepared: Vec<P> = (0..threads).map(prepare).collect();
    thread::scope(|scope| {
        let begin = |prepared| {
            scope.spawn(move || {
                start.wait();
                act(prepared)
            })
        };
        let running: Vec<_> = prepared.into_iter().map(begin).collect();
        let running = running.into_iter();
        running
            .map(|thread| thread.join().expect("a thread"))
            .collect()
    })
}
