//! SIGTERM and Ctrl-C while commands run for letters: they end with us.

use std::process;
use std::sync::Arc;
use std::thread;

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::{Handle, Signals};

use crate::error::{Error, Result};
use crate::shell::Shell;

/// What a process exits with when a signal ended it: 128 and the number of SIGINT.
const INTERRUPTED: i32 = 130;

/// Ends the commands of a shell, and this process, when a signal asks for it; until it is dropped.
///
/// The letter in hand is in a transaction that ends with the process, so it stays open.
pub(crate) struct Interrupt(Handle);

impl Interrupt {
    /// Listens.
    pub(crate) fn of(shell: &Arc<Shell>) -> Result<Interrupt> {
        let mut signals = Signals::new([SIGTERM, SIGINT])
            .map_err(|error| Error::caused_by("could not listen to signals", error))?;
        let handle = signals.handle();
        let shell = Arc::clone(shell);
        thread::spawn(move || {
            if signals.forever().next().is_some() {
                shell.kill_all();
                process::exit(INTERRUPTED);
            }
        });
        Ok(Interrupt(handle))
    }
}

impl Drop for Interrupt {
    fn drop(&mut self) {
        self.0.close();
    }
}
