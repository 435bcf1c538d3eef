//! Ends the programs to which a command hands letters when this process gets SIGTERM or Ctrl-C.

use std::process;
use std::sync::Arc;
use std::thread;

use signal_hook::iterator::Handle;

use super::runner::Shell;
use crate::error::{Error, Result};
use crate::stop;

/// The exit code of an interrupted process: 128 plus SIGINT.
const INTERRUPTED: i32 = 130;

/// Kills the commands of a shell on SIGTERM or Ctrl-C, until it is dropped.
pub(crate) struct Interrupt(Handle);

impl Interrupt {
    /// Also reports and exits. The current letter stays open, because its transaction ends with the process.
    pub(crate) fn of(
        shell: Option<&Arc<Shell>>,
        report: impl FnOnce() + Send + 'static,
    ) -> Result<Interrupt> {
        Interrupt::listen(shell, || {
            report();
            process::exit(INTERRUPTED);
        })
    }

    /// Lets the process go on, whose next commands fail.
    pub(crate) fn of_commands(shell: &Arc<Shell>) -> Result<Interrupt> {
        Interrupt::listen(Some(shell), || ())
    }

    fn listen(
        shell: Option<&Arc<Shell>>,
        then: impl FnOnce() + Send + 'static,
    ) -> Result<Interrupt> {
        let mut signals = stop::listen()?;
        let handle = signals.handle();
        let shell = shell.cloned();
        let listening = thread::Builder::new().spawn(move || {
            if signals.forever().next().is_some() {
                if let Some(shell) = shell {
                    shell.kill_all();
                }
                then();
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
