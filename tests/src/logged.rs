//! What the program logs, kept for a test. One of them a process: tests run in a process each.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use log::{LevelFilter, Log, Metadata, Record};

/// The log lines of this process since it was started. Clones are the same.
#[derive(Clone, Debug, Default)]
pub struct Logged {
    lines: Arc<Mutex<Vec<String>>>,
}

impl Logged {
    /// Begins to keep every line up to this level, of whatever crate.
    pub fn start(level: LevelFilter) -> Logged {
        let logged = Logged::default();
        log::set_boxed_logger(Box::new(logged.clone())).expect("the only logger of the process");
        log::set_max_level(level);
        logged
    }

    /// The lines so far: level, crate and module, text.
    pub fn lines(&self) -> Vec<String> {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<String>> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Log for Logged {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &Record<'_>) {
        let line = format!("{} {}: {}", record.level(), record.target(), record.args());
        self.lock().push(line);
    }

    fn flush(&self) {}
}
