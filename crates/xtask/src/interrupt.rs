//! Ctrl-C, SIGTERM and SIGHUP as a flag that every wait checks, so that guards can clean up.
//!
//! Children run in their own process groups. A Ctrl-C therefore reaches only this process, which
//! stops its children, their children included, and then its clusters.
//!
//! Children print to files. A pipe would need threads that read it, and would stay open in what a child leaves behind.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, IsTerminal as _, Read as _, Seek as _, Write as _};
use std::process::{Command, ExitStatus};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use tempfile::NamedTempFile;

use crate::cargo::typed;
use crate::child::ChildGuard;

/// How often a wait checks its condition and the flag.
const TICK: Duration = Duration::from_millis(20);
/// What a line with an error contains, and how many such lines and how many last ones an error repeats.
const SIGNS: [&str; 3] = ["error", "FAILED", "panicked at"];
const ERRORS: usize = 30;
const LAST: usize = 10;

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
        let ended = self.wait_for(Duration::MAX, || child.status())?;
        ended.context("the end of time")
    }

    /// Prints a command and runs it. It must succeed.
    ///
    /// Outside a terminal, the error repeats what the program said: a log of the gate is long, and whoever shows it
    /// may cut its middle.
    pub(crate) fn succeed(&self, command: &mut Command) -> Result<()> {
        println!("    $ {}", typed(command));
        let mut said = Vec::new();
        let status = if io::stdout().is_terminal() {
            self.run(command)?
        } else {
            let output = NamedTempFile::new()?;
            // With a position of its own.
            let mut new = output.reopen()?;
            let output = output.into_file();
            command.stdout(output.try_clone()?).stderr(output);
            let mut child = ChildGuard::start(command)?;
            let ended = self.wait_for(Duration::MAX, || {
                let status = child.status()?;
                let from = said.len();
                new.read_to_end(&mut said)?;
                // Nobody may be left to read it. The program goes on.
                let mut stdout = io::stdout();
                _ = stdout
                    .write_all(&said[from..])
                    .and_then(|()| stdout.flush());
                Ok(status)
            })?;
            ended.context("the end of time")?
        };
        ensure!(
            status.success(),
            "`{}` ended with {status}{}",
            typed(command),
            telling(&String::from_utf8_lossy(&said))
        );
        Ok(())
    }

    /// Runs a program for at most `limit`. Returns how it ended and its standard output, or `None` if it took longer
    /// and was stopped.
    pub(crate) fn ended(
        &self,
        command: &mut Command,
        limit: Duration,
    ) -> Result<Option<(ExitStatus, String)>> {
        let output = tempfile::tempfile()?;
        let mut child = ChildGuard::start(command.stdout(output.try_clone()?))?;
        let status = self.wait_for(limit, || child.status())?;
        status.map(|status| Ok((status, text(output)?))).transpose()
    }

    /// Runs a program that must succeed within `limit`, and returns its standard output.
    pub(crate) fn stdout(&self, command: &mut Command, limit: Duration) -> Result<String> {
        let errors = tempfile::tempfile()?;
        command.stderr(errors.try_clone()?);
        let (status, output) = self
            .ended(command, limit)?
            .with_context(|| format!("`{}` did not end within {limit:?}", typed(command)))?;
        ensure!(
            status.success(),
            "`{}` ended with {status}\n{output}{}",
            typed(command),
            text(errors)?.trim_end()
        );
        Ok(output)
    }
}

/// Returns what a program wrote to a file.
fn text(mut file: File) -> Result<String> {
    let mut bytes = Vec::new();
    file.rewind()?;
    file.read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Returns the lines of an output that show an error or follow one, and the last lines, each after a line break and
/// indented.
fn telling(output: &str) -> String {
    let lines: Vec<&str> = output.lines().map(str::trim_end).collect();
    let is_error = |at: usize| SIGNS.iter().any(|sign| lines[at].contains(sign));
    let errors = (0..lines.len()).filter(|at| is_error(*at) || *at > 0 && is_error(*at - 1));
    let last = lines.len().saturating_sub(LAST)..lines.len();
    let shown: BTreeSet<usize> = errors.take(ERRORS).chain(last).collect();
    shown
        .into_iter()
        .flat_map(|at| ["\n        ", lines[at]])
        .collect()
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
            let mut expected = vec!["test a ... FAILED".to_owned(), "why".to_owned()];
            expected.extend((11..=20).map(|number| number.to_string()));
            let expected = format!("\n        {}", expected.join("\n        "));
            assert!(error.ends_with(&expected), "{error}");
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
