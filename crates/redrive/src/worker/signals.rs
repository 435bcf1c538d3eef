//! Signals that stop a worker: the first one gracefully, the second one the process at once.

use std::ffi::c_int;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nix::sys::signal::{SigSet, Signal};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::iterator::Signals;
use signal_hook::low_level;

use crate::db::spawn::spawn;
use crate::error::{Error, Result};
use crate::sync::channel::bounded;
use crate::worker::StopHandle;

/// The workers that the next signal stops. `None`: none has listened yet, and the signals have their actions.
static LISTENERS: Mutex<Option<Vec<StopHandle>>> = Mutex::new(None);

/// A worker that listens for signals, until it is dropped.
pub(super) struct StopSignals(StopHandle);

impl StopSignals {
    /// Passes the first signal on to the worker.
    pub(super) fn listen(stop: StopHandle) -> Result<StopSignals> {
        let mut listeners = listeners();
        if listeners.is_none() {
            start()?;
        }
        listeners.get_or_insert_default().push(stop.clone());
        Ok(StopSignals(stop))
    }
}

impl Drop for StopSignals {
    fn drop(&mut self) {
        let is_other = |it: &StopHandle| !Arc::ptr_eq(&it.stopping, &self.0.stopping);
        if let Some(listeners) = &mut *listeners() {
            listeners.retain(is_other);
        }
    }
}

/// Starts the thread that takes the signals from now on.
fn start() -> Result<()> {
    // What this process caught and ignored before, where the system tells, as Linux does.
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let is_caught = |signal| has(&status, "SigCgt:", signal);
    let is_ours = |signal: &c_int| match *signal {
        SIGTERM | SIGINT => true,
        // A program may reload at a hangup, and `nohup` ignores it.
        other => !is_caught(other) && !has(&status, "SigIgn:", other),
    };
    let stopping = [SIGTERM, SIGINT, SIGHUP, SIGQUIT].into_iter();
    let stopping: Vec<c_int> = stopping.filter(is_ours).collect();
    let signals_of = stopping.iter().map(|signal| Signal::try_from(*signal));
    let unblocked: SigSet = signals_of.flatten().collect();
    // A program with a handler of its own decides itself when it ends.
    let ending = stopping.iter().copied();
    let ending: Vec<c_int> = ending.filter(|signal| !is_caught(*signal)).collect();
    let (give, given) = bounded::<Signals>(1);
    // Before the handlers are installed. They remain, and without the thread the process would ignore its signals.
    spawn("redrive-signals", move || {
        let Ok(mut signals) = given.recv() else {
            return;
        };
        // The parent may have left them blocked. One thread that takes them is enough.
        if let Err(error) = unblocked.thread_unblock() {
            log::warn!("could not unblock the signals that stop a worker: {error}");
        }
        for signal in signals.forever() {
            let stopped = listeners().as_mut().map(std::mem::take);
            let stopped = stopped.unwrap_or_default();
            // It is the second one, or no worker listens any more. The library installs handlers that remain, so
            // they must do what the default action did.
            if stopped.is_empty() && ending.contains(&signal) {
                low_level::exit(128 + signal);
            }
            stopped.iter().for_each(StopHandle::stop);
        }
    })?;
    _ = give.send(Signals::new(&stopping).map_err(not_installed)?);
    Ok(())
}

fn not_installed(error: io::Error) -> Error {
    Error::unavailable("could not install the signal handlers").caused_by(error)
}

fn listeners() -> MutexGuard<'static, Option<Vec<StopHandle>>> {
    // A panic cannot leave it inconsistent.
    LISTENERS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns whether a mask of the status of a process has a signal. Bit 0 is signal 1.
fn has(status: &str, mask: &str, signal: c_int) -> bool {
    let hex = status.lines().find_map(|line| line.strip_prefix(mask));
    let bits = hex.and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok());
    bits.is_some_and(|bits| bits.checked_shr(signal.unsigned_abs() - 1).unwrap_or(0) & 1 == 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_status_of_a_process_names_the_signals_it_catches_and_ignores() {
        let status = "Name:\tx\nSigIgn:\t0000000000001001\nSigCgt:\t0000000180014002\n";
        for (signal, caught, ignored) in [
            (SIGHUP, false, true),
            (SIGINT, true, false),
            (SIGQUIT, false, false),
            (SIGTERM, true, false),
            (13, false, true),
        ] {
            let is = ["SigCgt:", "SigIgn:"].map(|mask| has(status, mask, signal));
            assert_eq!(is, [caught, ignored], "{signal}");
        }
        assert!(!has("", "SigCgt:", SIGTERM));
    }
}
