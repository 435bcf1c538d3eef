//! Threads of a schedule.

use std::io;
use std::time::Duration;

use super::clock;

pub(crate) use std::thread::available_parallelism;

pub(crate) fn sleep(time: Duration) {
    clock::sleep(time);
}

/// Starts a thread.
pub(crate) struct Builder(shuttle::thread::Builder);

impl Builder {
    pub(crate) fn new() -> Builder {
        Builder(shuttle::thread::Builder::new())
    }

    pub(crate) fn name(self, name: String) -> Builder {
        Builder(self.0.name(name))
    }

    pub(crate) fn spawn<T, F>(self, work: F) -> io::Result<shuttle::thread::JoinHandle<T>>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        clock::begins();
        let end = Ends;
        self.0.spawn(move || {
            let _end = end;
            work()
        })
    }
}

/// Records the end of a thread, also after a panic.
struct Ends;

impl Drop for Ends {
    fn drop(&mut self) {
        clock::ends();
    }
}
