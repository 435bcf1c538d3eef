//! Threads of a schedule.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
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

    pub(crate) fn spawn<T, F>(self, work: F) -> io::Result<JoinHandle<T>>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        let ended = Arc::new(AtomicBool::new(false));
        let end = Ends(Arc::clone(&ended));
        clock::begins();
        let thread = self.0.spawn(move || {
            let _end = end;
            work()
        })?;
        Ok(JoinHandle { thread, ended })
    }
}

/// Records the end of a thread, also after a panic.
struct Ends(Arc<AtomicBool>);

impl Drop for Ends {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
        clock::ends();
    }
}

/// Waits for the end of a thread.
#[derive(Debug)]
pub(crate) struct JoinHandle<T> {
    thread: shuttle::thread::JoinHandle<T>,
    ended: Arc<AtomicBool>,
}

impl<T> JoinHandle<T> {
    pub(crate) fn is_finished(&self) -> bool {
        self.ended.load(Ordering::Relaxed)
    }

    pub(crate) fn join(self) -> std::thread::Result<T> {
        clock::wait(None, || self.ended.load(Ordering::Relaxed).then_some(()));
        self.thread.join()
    }
}
