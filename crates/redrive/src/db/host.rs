//! Asks the host for threads and descriptors before the driver and the pool do, because they panic
//! without them.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::{convert, thread};

use crossbeam_channel::bounded;

use crate::db::spawn::refused;
use crate::error::Result;

/// Checks that this many threads can start.
pub(crate) fn check_threads(count: usize, doing: &str) -> Result<()> {
    let (release, released) = bounded::<convert::Infallible>(0);
    let started: std::io::Result<Vec<_>> = (0..count)
        .map(|_| {
            let released = released.clone();
            // Ends when the other side is dropped.
            thread::Builder::new().spawn(move || _ = released.recv())
        })
        .collect();
    drop(release);
    for thread in started.map_err(|error| refused(doing).caused_by(error))? {
        // It cannot panic.
        _ = thread.join();
    }
    Ok(())
}

/// Checks that the driver gets an event loop, and a thread that looks up names.
pub(crate) fn check_driver(doing: &str) -> Result<()> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| refused(doing).caused_by(error))?;
    check_threads(1, doing)
}

/// Calls a dependency. A panic, because the host refused something after the check, is an error.
pub(crate) fn caught<T>(doing: &str, work: impl FnOnce() -> T) -> Result<T> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|_| refused(doing))
}
