//! Ctrl-C and SIGTERM: a flag that every wait looks at, so that guards can clean up.
//!
//! Children run in process groups of their own. A Ctrl-C therefore reaches only this process,
//! which then asks each child to stop, children of children included, and drops its clusters.

use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use std::{io::Read, os::unix::process::CommandExt};

use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::error::{During, Error, Result};

/// How often a wait looks at the child, or the condition, and at the flag.
const TICK: Duration = Duration::from_millis(20);
/// How long a child may take to stop when asked.
const GRACE: Duration = Duration::from_secs(10);

/// Whether somebody asked this process to stop. Clones look at the same flag.
#[derive(Clone, Debug)]
pub(crate) struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Takes SIGINT, SIGTERM and SIGHUP of this process from now on.
    pub(crate) fn listen() -> Result<Interrupt> {
        let flag = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            signal_hook::flag::register(signal, Arc::clone(&flag))
                .during(|| format!("cannot listen to signal {signal}"))?;
        }
        Ok(Interrupt(flag))
    }

    /// An error once somebody asked this process to stop.
    pub(crate) fn check(&self) -> Result<()> {
        if self.0.load(Ordering::Relaxed) {
            Err(Error::interrupted())
        } else {
            Ok(())
        }
    }

    /// Waits until `ready` answers something, at most for `limit`: `None` when it is over.
    pub(crate) fn wait_for<T>(
        &self,
        limit: Duration,
        mut ready: impl FnMut() -> Result<Option<T>>,
    ) -> Result<Option<T>> {
        let end = Instant::now() + limit;
        loop {
            self.check()?;
            if let Some(answer) = ready()? {
                return Ok(Some(answer));
            }
            if Instant::now() >= end {
                return Ok(None);
            }
            thread::sleep(TICK);
        }
    }

    /// Runs a program to its end with our own output streams.
    pub(crate) fn run(&self, command: &mut Command) -> Result<ExitStatus> {
        let mut child = Running::start(command)?;
        loop {
            self.check()?;
            if let Some(status) = child.status()? {
                return Ok(status);
            }
            thread::sleep(TICK);
        }
    }

    /// Runs a program to its end, at most for `limit`, and answers what it printed;
    /// `None` when it had to be stopped.
    pub(crate) fn output(&self, command: &mut Command, limit: Duration) -> Result<Option<Output>> {
        let mut child = Running::start(command.stdout(Stdio::piped()).stderr(Stdio::piped()))?;
        let (stdout, stderr) = (
            reader(child.child.stdout.take()),
            reader(child.child.stderr.take()),
        );
        let Some(status) = self.wait_for(limit, || child.status())? else {
            return Ok(None);
        };
        let collect = |reader: thread::JoinHandle<Vec<u8>>| reader.join().unwrap_or_default();
        Ok(Some(Output {
            status,
            stdout: collect(stdout),
            stderr: collect(stderr),
        }))
    }
}

/// Reads a pipe to its end on a thread, so that a child never waits for us to read.
fn reader(pipe: Option<impl Read + Send + 'static>) -> thread::JoinHandle<Vec<u8>> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut pipe) = pipe {
            // What arrived before an error is still worth showing.
            _ = pipe.read_to_end(&mut bytes);
        }
        bytes
    })
}

/// A child process with its own process group; stopped when dropped.
#[derive(Debug)]
pub(crate) struct Running {
    child: Child,
    name: String,
}

impl Running {
    /// Starts a program. It has no input: nothing here asks questions.
    pub(crate) fn start(command: &mut Command) -> Result<Running> {
        let name = command.get_program().to_string_lossy().into_owned();
        let child = command
            .stdin(Stdio::null())
            .process_group(0)
            .spawn()
            .during(|| format!("cannot start `{name}`"))?;
        Ok(Running { child, name })
    }

    /// How it ended, if it did.
    pub(crate) fn status(&mut self) -> Result<Option<ExitStatus>> {
        self.child
            .try_wait()
            .during(|| format!("cannot wait for `{}`", self.name))
    }

    /// Sends SIGTERM to the program alone and waits for its graceful end, at most for `limit`.
    pub(crate) fn stop(&mut self, interrupt: &Interrupt, limit: Duration) -> Result<ExitStatus> {
        if let Some(pid) = self.pid() {
            // It may have ended by itself just now; its status tells.
            _ = kill_process(pid, Signal::TERM);
        }
        interrupt.wait_for(limit, || self.status())?.ok_or_else(|| {
            Error::new(format!(
                "`{}` did not stop within {limit:?} after SIGTERM",
                self.name
            ))
        })
    }

    /// Stops its time (SIGSTOP), and that of its children.
    pub(crate) fn pause(&self) -> Result<()> {
        self.signal(Signal::STOP)
    }

    /// Lets its time go on.
    pub(crate) fn resume(&self) -> Result<()> {
        self.signal(Signal::CONT)
    }

    fn signal(&self, signal: Signal) -> Result<()> {
        match self.pid() {
            Some(pid) => kill_process_group(pid, signal)
                .during(|| format!("cannot send a signal to `{}`", self.name)),
            None => Ok(()),
        }
    }

    fn pid(&self) -> Option<Pid> {
        i32::try_from(self.child.id()).ok().and_then(Pid::from_raw)
    }

    /// Whether it has ended, as far as we can tell.
    fn is_over(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if self.is_over() {
            return;
        }
        let Some(pid) = self.pid() else { return };
        for signal in [Signal::TERM, Signal::KILL] {
            // The group may be gone already, and then there is nothing left to stop.
            _ = kill_process_group(pid, signal);
            let end = Instant::now() + GRACE;
            while Instant::now() < end {
                if self.is_over() {
                    return;
                }
                thread::sleep(TICK);
            }
        }
        eprintln!(
            "`{}` (process {}) could not be stopped",
            self.name,
            self.child.id()
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quiet() -> Interrupt {
        Interrupt(Arc::default())
    }

    #[test]
    fn output_is_collected_and_a_limit_is_kept() {
        let command = |script: &str| {
            let mut command = Command::new("sh");
            command.args(["-c", script]);
            command
        };
        let output = quiet()
            .output(
                &mut command("echo out; echo err >&2; exit 3"),
                Duration::from_secs(10),
            )
            .expect("it runs")
            .expect("it ends");
        assert_eq!(output.status.code(), Some(3));
        assert_eq!(
            (output.stdout, output.stderr),
            (b"out\n".to_vec(), b"err\n".to_vec())
        );

        let begin = Instant::now();
        let late = quiet().output(&mut command("sleep 60"), Duration::from_millis(50));
        assert!(late.expect("it runs").is_none());
        assert!(
            begin.elapsed() < GRACE,
            "stopped at once, its group with it"
        );
    }

    #[test]
    fn an_interrupt_ends_every_wait() {
        let interrupt = quiet();
        interrupt.0.store(true, Ordering::Relaxed);
        let mut command = Command::new("sleep");
        let error = interrupt.run(command.arg("60")).expect_err("interrupted");
        assert_eq!(error.exit_code(), 130);
    }

    #[test]
    fn a_stopped_program_tells_its_status() {
        let mut command = Command::new("sh");
        // Short sleeps, because the shell runs the trap between them.
        let script = "trap 'exit 7' TERM; echo; while :; do sleep 0.02; done";
        command.args(["-c", script]).stdout(Stdio::piped());
        let mut running = Running::start(&mut command).expect("it starts");
        let mut newline = [0];
        running
            .child
            .stdout
            .take()
            .expect("piped")
            .read_exact(&mut newline)
            .expect("ready");
        let status = running.stop(&quiet(), GRACE).expect("it stops");
        assert_eq!(status.code(), Some(7));
    }
}
