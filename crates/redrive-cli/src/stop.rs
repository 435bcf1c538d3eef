//! Signals: those that ask a command to stop, and what the parent of this process left of the others.

use std::ffi::c_int;
use std::io;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Once, OnceLock};

use nix::sys::signal::SigSet;
use signal_hook::consts::{
    FORBIDDEN, SIGALRM, SIGHUP, SIGINT, SIGPIPE, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGXFSZ,
};
use signal_hook::flag;
use signal_hook::iterator::Signals;

use crate::error::{Error, Result};

/// Signals that end a process by default, and that no worker should end by.
const HARMLESS: [c_int; 4] = [SIGUSR1, SIGUSR2, SIGALRM, SIGXFSZ];

/// The signals that ask a command to stop. The first one lets it stop between two batches, and the
/// second one ends the process.
#[derive(Clone, Copy)]
pub(crate) struct StopSignal(&'static AtomicBool);

impl StopSignal {
    /// Starts to listen, if this process does not yet. The signals no longer end it at once.
    pub(crate) fn listen() -> Result<StopSignal> {
        static IS_LISTENING: AtomicBool = AtomicBool::new(false);
        if !IS_LISTENING.swap(true, Ordering::SeqCst) {
            // In this order: the first signal sets the flag after it was looked at.
            end_at_signal(is_stopping())?;
            set_at_signal(is_stopping())?;
        }
        Ok(StopSignal(is_stopping()))
    }

    /// Breaks if a signal has arrived.
    pub(crate) fn check(self) -> ControlFlow<()> {
        match self.0.load(Ordering::SeqCst) {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    }

    /// Fails if a signal has arrived. For a command that has changed nothing.
    pub(crate) fn go_on(self) -> Result<()> {
        match self.check() {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(()) => Err(Error::Stopped),
        }
    }
}

/// Whether a signal has arrived since this process listens. The commands that it runs for letters and payloads end then.
pub(crate) fn is_stopping() -> &'static Arc<AtomicBool> {
    static IS_STOPPING: OnceLock<Arc<AtomicBool>> = OnceLock::new();
    IS_STOPPING.get_or_init(Arc::default)
}

/// Listens for the signals that ask a command to stop.
pub(crate) fn listen() -> Result<Signals> {
    Signals::new(stopping())
        .map_err(|error| Error::caused_by("could not listen for signals", error))
}

/// Ends the process at a signal while the flag is set.
pub(crate) fn end_at_signal(ends: &Arc<AtomicBool>) -> Result<()> {
    at_signal(|signal| flag::register_conditional_shutdown(signal, 128 + signal, Arc::clone(ends)))
}

/// Sets the flag at a signal.
pub(crate) fn set_at_signal(is_stopping: &Arc<AtomicBool>) -> Result<()> {
    at_signal(|signal| flag::register(signal, Arc::clone(is_stopping)))
}

fn at_signal<T>(register: impl Fn(c_int) -> io::Result<T>) -> Result<()> {
    let mut signals = stopping().iter();
    let registered = signals.try_for_each(|signal| register(*signal).map(drop));
    registered.map_err(|error| Error::caused_by("could not listen for signals", error))
}

/// Unblocks every signal, because a parent may have left some blocked. Call it before other threads
/// start.
pub(crate) fn unblock() {
    if let Err(error) = SigSet::all().thread_unblock() {
        log::warn!("could not unblock signals: {error}");
    }
}

/// Keeps stray signals from ending this process, and lets its children start with the default action of
/// every signal: a child inherits ignored signals, but not handlers.
pub(crate) fn pass_on_defaults() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // A handler hides what the parent ignored.
        stopping();
        // Rust itself ignores SIGPIPE, and resets it in children.
        let inherited = (1..=64).filter(|signal| is_ignored(*signal) && *signal != SIGPIPE);
        let inherited = inherited.filter(|signal| !FORBIDDEN.contains(signal));
        for signal in HARMLESS.into_iter().chain(inherited) {
            // The flag is never read.
            if let Err(error) = flag::register(signal, Arc::default()) {
                log::debug!("could not handle signal {signal}: {error}");
            }
        }
    });
}

/// SIGTERM, SIGINT, SIGQUIT and, unless the parent ignores it as `nohup` does, SIGHUP.
fn stopping() -> &'static [c_int] {
    static STOPPING: OnceLock<Vec<c_int>> = OnceLock::new();
    STOPPING.get_or_init(|| {
        let hangup = Some(SIGHUP).filter(|signal| !is_ignored(*signal));
        [SIGTERM, SIGINT, SIGQUIT]
            .into_iter()
            .chain(hangup)
            .collect()
    })
}

/// Whether this process ignores a signal, where the system tells, as Linux does.
fn is_ignored(signal: c_int) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let bits = ignored.and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok());
    bits.is_some_and(|bits| bits >> (signal.unsigned_abs() - 1) & 1 == 1)
}
