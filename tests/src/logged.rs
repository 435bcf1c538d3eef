//! Records the log of the process. nextest runs each test in its process.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use log::{LevelFilter, Log, Metadata, Record};

/// The log lines since the start of the recording. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Logged {
    lines: Arc<Mutex<Vec<String>>>,
}

impl Logged {
    /// Records every line up to this level, of any crate.
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
