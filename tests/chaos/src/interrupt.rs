//! Ctrl-C and SIGTERM: whoever lets time pass ends by unwinding, so that servers and actors are
//! stopped on the way out.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

static FLAG: OnceLock<Arc<AtomicBool>> = OnceLock::new();

/// Listens from now on.
pub(crate) fn listen() {
    let flag = FLAG.get_or_init(Arc::default);
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, Arc::clone(flag)).expect("listen to signals");
    }
}

/// Whether somebody asked this process to stop.
pub(crate) fn is_asked() -> bool {
    FLAG.get().is_some_and(|flag| flag.load(Ordering::Relaxed))
}

/// Ends the thread when somebody asked this process to stop.
pub(crate) fn check() {
    assert!(!is_asked(), "interrupted");
}
