//! Ctrl-C, SIGTERM and SIGHUP as a flag that every wait checks, so that guards can clean up.
//!
//! Children run in their own process groups. A Ctrl-C therefore reaches only this process, which
//! stops its children, their children included, and then its clusters.

use std::io::{self, IsTerminal as _, Read};
use std::process::{Command, ExitStatus, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::cargo::typed;
use crate::child::ChildGuard;
use crate::echo::{Telling, pass_on};

/// How often a wait checks its condition and the flag.
const TICK: Duration = Duration::from_millis(20);
/// How long after its end the output of a program may take to arrive.
const LINGER: Duration = Duration::from_secs(5);

/// The error of every wait once the user asked to stop.
#[derive(Debug)]
pub(crate) struct Interrupted;

impl std::fmt::Display for Interrupted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("interrupted; all child processes were stopped")
    }
}

impl std::error::Error for Interrupted {}

/// Whether the user asked this process to stop. Clones share one flag.
#[derive(Clone, Debug)]
pub(crate) struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Starts to listen for SIGINT, SIGTERM and SIGHUP.
    pub(crate) fn listen() -> Result<Interrupt> {
        let flag = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            signal_hook::flag::register(signal, Arc::clone(&flag))
                .with_context(|| format!("cannot listen for signal {signal}"))?;
        }
        Ok(Interrupt(flag))
    }

    /// Returns an error once the user asked to stop.
    pub(crate) fn check(&self) -> Result<()> {
        ensure!(!self.0.load(Ordering::Relaxed), Interrupted);
        Ok(())
    }

    /// Waits until `ready` returns a value, for at most `limit`; then returns `None`.
    pub(crate) fn wait_for<T>(
        &self,
        limit: Duration,
        mut ready: impl FnMut() -> Result<Option<T>>,
    ) -> Result<Option<T>> {
        let begin = Instant::now();
        loop {
            self.check()?;
            if let Some(value) = ready()? {
                return Ok(Some(value));
            }
            if begin.elapsed() >= limit {
                return Ok(None);
            }
            thread::sleep(TICK);
        }
    }

    /// Waits for `time`.
    pub(crate) fn pause(&self, time: Duration) -> Result<()> {
        self.wait_for::<()>(time, || Ok(None)).map(drop)
    }

    /// Runs a program to its end. It inherits the output streams.
    pub(crate) fn run(&self, command: &mut Command) -> Result<ExitStatus> {
        let mut child = ChildGuard::start(command)?;
        self.status(&mut child)
    }

    /// Waits for the end of a program.
    fn status(&self, child: &mut ChildGuard) -> Result<ExitStatus> {
        let ended = self.wait_for(Duration::MAX, || child.status())?;
        ended.context("the end of time")
    }

    /// Prints a command and runs it. It must succeed. Outside a terminal, the error repeats what the
    /// program said.
    pub(crate) fn succeed(&self, command: &mut Command) -> Result<()> {
        println!("    $ {}", typed(command));
        let telling: Arc<Mutex<Telling>> = Arc::default();
        let status = if io::stdout().is_terminal() {
            self.run(command)?
        } else {
            command.stdout(Stdio::piped()).stderr(Stdio::piped());
            let mut child = ChildGuard::start(command)?;
            let (stdout, stderr) = child.take_output();
            let echoes = [
                stdout.map(|from| pass_on(from, io::stdout(), &telling)),
                stderr.map(|from| pass_on(from, io::stderr(), &telling)),
            ];
            let status = self.status(&mut child)?;
            // What the program left running may hold its streams open.
            self.wait_for(LINGER, || {
                let mut echoes = echoes.iter().flatten();
                Ok(echoes.all(JoinHandle::is_finished).then_some(()))
            })?;
            status
        };
        let telling = telling.lock().unwrap_or_else(PoisonError::into_inner);
        ensure!(
            status.success(),
            "`{}` ended with {status}{}",
            typed(command),
            telling.text()
        );
        Ok(())
    }

    /// Runs a program for at most `limit` and returns what it printed, or `None` when it took
    /// longer and was stopped.
    pub(crate) fn output(&self, command: &mut Command, limit: Duration) -> Result<Option<Output>> {
        self.wait_with_output(command.stdout(Stdio::piped()).stderr(Stdio::piped()), limit)
    }

    /// Like [`output`](Interrupt::output), but collects only the streams that are piped.
    fn wait_with_output(&self, command: &mut Command, limit: Duration) -> Result<Option<Output>> {
        let mut child = ChildGuard::start(command)?;
        let (stdout, stderr) = child.take_output();
        let (stdout, stderr) = (reader(stdout), reader(stderr));
        let Some(status) = self.wait_for(limit, || child.status())? else {
            return Ok(None);
        };
        let collect = |reader: JoinHandle<Vec<u8>>| reader.join().unwrap_or_default();
        Ok(Some(Output {
            status,
            stdout: collect(stdout),
            stderr: collect(stderr),
        }))
    }

    /// Runs a program that must succeed within `limit`, and returns its standard output.
    pub(crate) fn stdout(&self, command: &mut Command, limit: Duration) -> Result<String> {
        self.stdout_only(command.stderr(Stdio::piped()), limit)
    }

    /// Like [`stdout`](Interrupt::stdout), but leaves standard error as the command has it.
    pub(crate) fn stdout_only(&self, command: &mut Command, limit: Duration) -> Result<String> {
        match self.wait_with_output(command.stdout(Stdio::piped()), limit)? {
            Some(output) if output.status.success() => {
                Ok(String::from_utf8_lossy(&output.stdout).into_owned())
            }
            Some(output) => bail!(
                "`{}` ended with {}\n{}{}",
                typed(command),
                output.status,
                String::from_utf8_lossy(&output.stdout),
                String::from_utf8_lossy(&output.stderr).trim_end(),
            ),
            None => bail!("`{}` did not end within {limit:?}", typed(command)),
        }
    }
}

/// Reads a pipe to its end on a thread, so that the child never blocks on a full pipe.
fn reader(pipe: Option<impl Read + Send + 'static>) -> JoinHandle<Vec<u8>> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut pipe) = pipe {
            // Output before an error is still worth showing.
            _ = pipe.read_to_end(&mut bytes);
        }
        bytes
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    fn quiet() -> Interrupt {
        Interrupt(Arc::default())
    }

    #[test]
    fn what_must_succeed_says_why_it_did_not() {
        let script = "echo 'test a ... FAILED'; echo why >&2; seq 20; exit 3";
        let error = quiet().succeed(&mut shell(script)).expect_err("exit 3");
        let error = error.to_string();
        if !io::stdout().is_terminal() {
            assert!(error.contains("test a ... FAILED"), "{error}");
        }
    }

    #[test]
    fn an_interrupt_ends_every_wait() {
        let interrupt = quiet();
        interrupt.0.store(true, Ordering::Relaxed);
        let error = interrupt
            .run(&mut shell("sleep 60"))
            .expect_err("interrupted");
        assert!(error.is::<Interrupted>());
    }
}
