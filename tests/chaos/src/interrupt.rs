//! Ctrl-C and SIGTERM: a thread that waits unwinds, so that servers and processes are stopped.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

static FLAG: OnceLock<Arc<AtomicBool>> = OnceLock::new();

/// Installs the signal handlers.
pub(crate) fn listen() {
    let flag = FLAG.get_or_init(Arc::default);
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, Arc::clone(flag)).expect("register a signal handler");
    }
}

/// Whether a signal asked this process to stop.
pub(crate) fn is_requested() -> bool {
    FLAG.get().is_some_and(|flag| flag.load(Ordering::Relaxed))
}

/// Panics if a signal asked this process to stop.
pub(crate) fn check() {
    assert!(!is_requested(), "interrupted");
}
