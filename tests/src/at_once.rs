//! Threads that begin together.

use std::sync::Barrier;
use std::thread;

use crate::database::TestDatabase;
use crate::wait::blocked;

/// Makes a call that a lock holds up, does this when it waits, and returns the answer of the call.
#[track_caller]
pub fn held_up<T: Send>(
    test: &TestDatabase,
    call: impl FnOnce() -> T + Send,
    meanwhile: impl FnOnce(),
) -> T {
    thread::scope(|scope| {
        let calling = scope.spawn(call);
        blocked(&mut test.client(), 1);
        meanwhile();
        calling.join().expect("the call")
    })
}

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
        let ended = running.map(|thread| thread.join().expect("a thread"));
        ended.collect()
    })
}
