//! Signals that stop a worker: the first one gracefully, the second one the process at once.

use std::ffi::c_int;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nix::sys::signal::{SigSet, Signal};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::flag;
use signal_hook::iterator::{Handle, Signals};

use crate::db::spawn::spawn;
use crate::error::{Error, Result};
use crate::worker::StopHandle;

/// What the signals do in this process.
static PROCESS: Mutex<Option<Process>> = Mutex::new(None);

struct Process {
    /// The signals that stop workers.
    stopping: Vec<c_int>,
    /// Whether a signal ends the process: while no worker listens, and once a first one has arrived.
    /// The library installs handlers that remain, so it must do what the default action did.
    ends: Arc<AtomicBool>,
    listeners: usize,
}

/// A worker that listens for signals, until it is dropped.
pub(super) struct StopSignals(Handle);

impl StopSignals {
    /// Passes the first signal on to the worker.
    pub(super) fn listen(stop: StopHandle) -> Result<StopSignals> {
        let mut process = process();
        let process = match &mut *process {
            Some(process) => process,
            none => none.insert(Process::new().map_err(not_installed)?),
        };
        process.listen(stop).map(StopSignals)
    }
}

impl Drop for StopSignals {
    fn drop(&mut self) {
        self.0.close();
        if let Some(process) = &mut *process() {
            process.leave();
        }
    }
}

/// Starts the thread that passes signals on to a worker.
fn start(stopping: &[c_int], stop: StopHandle) -> Result<Handle> {
    let mut signals = Signals::new(stopping).map_err(not_installed)?;
    let handle = signals.handle();
    let unblocked: SigSet = stopping
        .iter()
        .filter_map(|signal| Signal::try_from(*signal).ok())
        .collect();
    spawn("redrive-signals", move || {
        // The parent may have left them blocked. One thread that takes them is enough.
        if let Err(error) = unblocked.thread_unblock() {
            log::warn!("could not unblock the signals that stop a worker: {error}");
        }
        // It goes on after the first one, because it may be the only thread that takes the second.
        for _ in signals.forever() {
            stop.stop();
        }
    })?;
    Ok(handle)
}

fn not_installed(error: io::Error) -> Error {
    Error::unavailable("could not install the signal handlers").caused_by(error)
}

impl Process {
    fn listen(&mut self, stop: StopHandle) -> Result<Handle> {
        if self.listeners == 0 {
            // Before the handlers, or the first signal could be forgotten and the second one pass for it.
            self.ends.store(false, Ordering::SeqCst);
        }
        self.listeners += 1;
        let listening = start(&self.stopping, stop);
        if listening.is_err() {
            self.leave();
        }
        listening
    }

    fn leave(&mut self) {
        self.listeners -= 1;
        if self.listeners == 0 {
            self.ends.store(true, Ordering::SeqCst);
        }
    }

    fn new() -> io::Result<Process> {
        let found = Found::read();
        let is_ours = |signal: &c_int| match *signal {
            SIGTERM | SIGINT => true,
            // A program may reload at a hangup, and `nohup` ignores it.
            other => !found.caught.has(other) && !found.ignored.has(other),
        };
        let stopping: Vec<c_int> = [SIGTERM, SIGINT, SIGHUP, SIGQUIT]
            .into_iter()
            .filter(is_ours)
            .collect();
        let ends = Arc::new(AtomicBool::new(false));
        // A program with a handler of its own decides itself when it ends.
        for signal in stopping.iter().filter(|signal| !found.caught.has(**signal)) {
            // In this order: the second signal finds the flag of the first one.
            flag::register_conditional_shutdown(*signal, 128 + *signal, Arc::clone(&ends))?;
            flag::register(*signal, Arc::clone(&ends))?;
        }
        Ok(Process {
            stopping,
            ends,
            listeners: 0,
        })
    }
}

/// The signals that this process caught and ignored before.
#[derive(Debug, Default)]
struct Found {
    caught: SignalMask,
    ignored: SignalMask,
}

impl Found {
    /// Reads them where the system tells, as Linux does.
    fn read() -> Found {
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        Found::parse(&status)
    }

    fn parse(status: &str) -> Found {
        let mask = |name| {
            let hex = status.lines().find_map(|line| line.strip_prefix(name));
            let bits = hex.and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok());
            SignalMask(bits.unwrap_or_default())
        };
        Found {
            caught: mask("SigCgt:"),
            ignored: mask("SigIgn:"),
        }
    }
}

/// A set of signals: bit 0 is signal 1.
#[derive(Clone, Copy, Debug, Default)]
struct SignalMask(u64);

impl SignalMask {
    fn has(self, signal: c_int) -> bool {
        self.0.checked_shr(signal.unsigned_abs() - 1).unwrap_or(0) & 1 == 1
    }
}

fn process() -> MutexGuard<'static, Option<Process>> {
    // A panic cannot leave it inconsistent.
    PROCESS.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::worker::latch::Latch;

    #[test]
    fn a_signal_ends_the_process_again_if_no_worker_can_listen() {
        let mut process = Process {
            stopping: vec![100],
            ends: Arc::new(AtomicBool::new(true)),
            listeners: 0,
        };
        let stopping = Arc::new(Latch::new().0);
        let listening = process.listen(StopHandle { stopping });
        assert!(listening.is_err(), "there is no such signal");
        assert!(process.ends.load(Ordering::SeqCst));
    }

    #[test]
    fn the_status_of_a_process_names_the_signals_it_catches_and_ignores() {
        let found =
            Found::parse("Name:\tx\nSigIgn:\t0000000000001001\nSigCgt:\t0000000180014002\n");
        for (signal, caught, ignored) in [
            (SIGHUP, false, true),
            (SIGINT, true, false),
            (SIGQUIT, false, false),
            (SIGTERM, true, false),
            (13, false, true),
        ] {
            let is = (found.caught.has(signal), found.ignored.has(signal));
            assert_eq!(is, (caught, ignored), "{signal}");
        }
        assert!(!Found::parse("").caught.has(SIGTERM));
    }
}
