//! Ends commands for letters when this process gets SIGTERM or Ctrl-C.

use std::process;
use std::sync::Arc;
use std::thread;

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::{Handle, Signals};

use super::runner::Shell;
use crate::error::{Error, Result};

/// The exit code of an interrupted process: 128 plus SIGINT.
const INTERRUPTED: i32 = 130;

/// Kills the commands of a shell and exits on SIGTERM or Ctrl-C, until it is dropped.
///
/// The current letter stays open, because its transaction ends with the process.
pub(crate) struct Interrupt(Handle);

impl Interrupt {
    /// Starts to listen for signals.
    pub(crate) fn of(shell: &Arc<Shell>) -> Result<Interrupt> {
        let mut signals = Signals::new([SIGTERM, SIGINT])
            .map_err(|error| Error::caused_by("could not listen for signals", error))?;
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
