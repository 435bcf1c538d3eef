//! Ends the programs to which a command hands letters when this process gets SIGTERM or Ctrl-C.

use std::sync::Arc;
use std::thread;

use signal_hook::iterator::Handle;

use super::runner::Shell;
use crate::error::{Error, Result};
use crate::stop;

/// Kills the commands of a shell on SIGTERM or Ctrl-C, until it is dropped.
pub(crate) struct Interrupt(Handle);

impl Interrupt {
    /// Lets the process go on, whose next commands fail.
    pub(crate) fn of_commands(shell: &Arc<Shell>) -> Result<Interrupt> {
        let mut signals = stop::listen()?;
        let handle = signals.handle();
        let shell = Arc::clone(shell);
        let listening = thread::Builder::new().spawn(move || {
            if signals.forever().next().is_some() {
                shell.kill_all();
            }
        });
        match listening {
            Ok(_) => Ok(Interrupt(handle)),
            Err(error) => Err(Error::caused_by("could not start a thread", error)),
        }
    }
}

impl Drop for Interrupt {
    fn drop(&mut self) {
        self.0.close();
    }
}
