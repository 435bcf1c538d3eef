//! A child process with its own process group.

use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;

use crate::interrupt::Interrupt;

/// How long a dropped child may take to stop after each signal.
const GRACE: Duration = Duration::from_secs(10);

/// A running child process. Dropping it stops its process group, also what the program left behind.
#[derive(Debug)]
pub(crate) struct ChildGuard {
    child: Child,
    name: String,
}

impl ChildGuard {
    /// Starts a program without standard input.
    pub(crate) fn start(command: &mut Command) -> Result<ChildGuard> {
        let name = command.get_program().to_string_lossy().into_owned();
        let child = command
            .stdin(Stdio::null())
            .process_group(0)
            .spawn()
            .with_context(|| format!("cannot start `{name}`"))?;
        Ok(ChildGuard { child, name })
    }

    /// Returns the exit status if the program has ended.
    pub(crate) fn status(&mut self) -> Result<Option<ExitStatus>> {
        self.child
            .try_wait()
            .with_context(|| format!("cannot wait for `{}`", self.name))
    }

    /// Sends SIGTERM to the program alone and waits up to `limit` for it to shut down.
    pub(crate) fn stop(&mut self, interrupt: &Interrupt, limit: Duration) -> Result<ExitStatus> {
        // Fails if the program has just ended; its status says how.
        _ = kill(self.pid(), Signal::SIGTERM);
        interrupt
            .wait_for(limit, || self.status())?
            .with_context(|| format!("`{}` did not stop within {limit:?} of SIGTERM", self.name))
    }

    /// Sends a signal to the whole process group.
    pub(crate) fn signal(&self, signal: Signal) -> Result<()> {
        killpg(self.pid(), signal)
            .with_context(|| format!("cannot send {signal} to `{}`", self.name))
    }

    fn pid(&self) -> Pid {
        Pid::from_raw(self.child.id().cast_signed())
    }

    fn has_ended(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }
}

impl Drop for ChildGuard {
    fn drop(&mut self) {
        if self.has_ended() {
            // Fails if no process is left.
            _ = self.signal(Signal::SIGKILL);
            return;
        }
        for signal in [Signal::SIGTERM, Signal::SIGKILL] {
            // Fails only if the group has ended.
            _ = self.signal(signal);
            let end = Instant::now() + GRACE;
            while Instant::now() < end {
                if self.has_ended() {
                    return;
                }
                thread::sleep(Duration::from_millis(20));
            }
        }
        eprintln!(
            "`{}` (pid {}) could not be stopped",
            self.name,
            self.child.id()
        );
    }
}
