//! Starts a command in its own process group and waits until it ends, is cancelled or is killed.

use std::io::{self, Read, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

use super::stderr::Stderr;

/// The interval between two checks of a running command: the delay of a cancellation.
const CHECK_EVERY: Duration = Duration::from_millis(50);
/// The longest output that is kept, in bytes: more than the largest payload.
pub(super) const MAX_STDOUT: usize = 2 * redrive::limits::MAX_PAYLOAD_BYTES;
/// How long to wait for the rest of stdout if a background process keeps it open.
const STDOUT_GRACE: Duration = Duration::from_secs(5);
/// How long to wait for the rest of stderr if a background process keeps it open.
const STDERR_GRACE: Duration = Duration::from_millis(200);

/// The destination of a command's stdout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stdout {
    /// The stdout of this process.
    Inherit,
    /// Discarded.
    Null,
    /// Kept, for [`Process::stdout`].
    Keep,
}

/// How a command ended.
#[derive(Clone, Copy, Debug)]
pub(super) enum Ended {
    Exited(ExitStatus),
    Killed,
}

/// A running command.
#[derive(Clone, Debug)]
pub(super) struct Process {
    child: Arc<Mutex<Child>>,
    stderr: Arc<Mutex<Stderr>>,
}

/// The output of a command.
pub(super) struct Output {
    /// Disconnects when the command closes its stderr.
    pub(super) stderr_closed: Receiver<()>,
    /// Its stdout, once the command closes it; `None`: it is not kept.
    stdout: Option<Receiver<Vec<u8>>>,
}

impl Output {
    /// The command's stdout, up to [`MAX_STDOUT`] and one more byte. `None` if it was not kept, or if a
    /// background process keeps it open.
    pub(super) fn stdout(&self) -> Option<Vec<u8>> {
        self.stdout.as_ref()?.recv_timeout(STDOUT_GRACE).ok()
    }
}

impl Process {
    /// Starts `sh -c command`, and writes `input` to its stdin on a thread.
    pub(super) fn start(
        command: &str,
        environment: &[(&'static str, String)],
        input: Vec<u8>,
        stdout: Stdout,
    ) -> io::Result<(Process, Output)> {
        let mut child = Command::new("sh")
            .arg("-c")
            .arg(command)
            .envs(environment.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::piped())
            .stdout(match stdout {
                Stdout::Inherit => Stdio::inherit(),
                Stdout::Null => Stdio::null(),
                Stdout::Keep => Stdio::piped(),
            })
            .stderr(Stdio::piped())
            // Ctrl-C must reach only this process, which then decides how the command ends.
            .process_group(0)
            .spawn()?;
        write_input(&mut child, input);
        let stderr = Arc::new(Mutex::new(Stderr::default()));
        let stderr_closed = read_stderr(&mut child, &stderr);
        let output = Output {
            stderr_closed,
            stdout: read_stdout(&mut child),
        };
        let process = Process {
            child: Arc::new(Mutex::new(child)),
            stderr,
        };
        Ok((process, output))
    }

    /// Waits until the command ends. A cancelled command gets SIGTERM, and SIGKILL after the grace.
    ///
    /// A command that succeeds although it was cancelled counts as exited.
    pub(super) fn wait(
        &self,
        stderr_closed: &Receiver<()>,
        is_cancelled: impl Fn() -> bool,
        running: &Running,
        grace: Duration,
    ) -> io::Result<Ended> {
        let mut pause = Duration::from_millis(1);
        let mut terminated: Option<Instant> = None;
        loop {
            // A closed stderr usually means that the command is about to end.
            if stderr_closed.recv_timeout(CHECK_EVERY) == Err(RecvTimeoutError::Disconnected) {
                if let Some(status) = lock(&self.child).try_wait()? {
                    return Ok(ended(status, terminated.is_some() || running.is_ending()));
                }
                thread::sleep(pause);
                pause = (pause * 2).min(CHECK_EVERY);
            }
            if let Some(status) = lock(&self.child).try_wait()? {
                return Ok(ended(status, terminated.is_some() || running.is_ending()));
            }
            match terminated {
                None if is_cancelled() || running.is_ending() => {
                    self.signal(Signal::TERM);
                    terminated = Some(Instant::now());
                }
                Some(at) if at.elapsed() > grace => self.signal(Signal::KILL),
                Some(_) | None => {}
            }
        }
    }

    /// The command's stderr, after a short wait for its end.
    pub(super) fn stderr(&self, stderr_closed: &Receiver<()>) -> String {
        // A timeout is fine: a background process keeps stderr open.
        _ = stderr_closed.recv_timeout(STDERR_GRACE);
        lock(&self.stderr).text()
    }

    /// Kills the command and its process group.
    pub(super) fn kill(&self) {
        self.signal(Signal::KILL);
    }

    pub(super) fn is(&self, other: &Process) -> bool {
        Arc::ptr_eq(&self.child, &other.child)
    }

    /// Signals the process group. The group id cannot be reused before the child is waited for.
    fn signal(&self, signal: Signal) {
        let mut child = lock(&self.child);
        if matches!(child.try_wait(), Ok(None))
            && let Some(group) = i32::try_from(child.id()).ok().and_then(Pid::from_raw)
        {
            // Fails if the group ended in the meantime.
            _ = kill_process_group(group, signal);
        }
    }
}

/// The running commands of a shell.
#[derive(Debug, Default)]
pub(super) struct Running {
    processes: Mutex<Vec<Process>>,
    is_ending: AtomicBool,
}

impl Running {
    pub(super) fn add(&self, process: &Process) {
        lock(&self.processes).push(process.clone());
    }

    pub(super) fn remove(&self, process: &Process) {
        lock(&self.processes).retain(|other| !other.is(process));
    }

    pub(super) fn is_ending(&self) -> bool {
        self.is_ending.load(Ordering::Relaxed)
    }

    /// Kills every running command and its process group.
    pub(super) fn kill_all(&self) {
        self.is_ending.store(true, Ordering::Relaxed);
        for process in &*lock(&self.processes) {
            process.kill();
        }
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        lock(&self.processes).is_empty()
    }
}

fn ended(status: ExitStatus, was_signaled: bool) -> Ended {
    match was_signaled && !status.success() {
        true => Ended::Killed,
        false => Ended::Exited(status),
    }
}

/// Writes to the command's stdin on a thread, because the command may not read it.
fn write_input(child: &mut Child, input: Vec<u8>) {
    if let Some(mut stdin) = child.stdin.take() {
        thread::spawn(move || {
            // A command that does not read its input has not failed.
            _ = stdin.write_all(&input);
        });
    }
}

/// Reads the command's stdout on a thread, if it is piped.
fn read_stdout(child: &mut Child) -> Option<Receiver<Vec<u8>>> {
    let mut stream = child.stdout.take()?;
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        let mut bytes = Vec::new();
        let mut start = stream.by_ref().take(MAX_STDOUT as u64 + 1);
        // The rest is read, so that the command does not fail for writing too much.
        let read = start
            .read_to_end(&mut bytes)
            .and_then(|_| io::copy(&mut stream, &mut io::sink()));
        // Output that cannot be read to its end is not output.
        if read.is_ok() {
            // Fails if nobody waits for it any more.
            _ = sender.send(bytes);
        }
    });
    Some(receiver)
}

/// Reads the command's stderr on a thread. The receiver disconnects at its end.
fn read_stderr(child: &mut Child, stderr: &Arc<Mutex<Stderr>>) -> Receiver<()> {
    let (open, closed) = mpsc::channel();
    if let Some(mut stream) = child.stderr.take() {
        let stderr = Arc::clone(stderr);
        thread::spawn(move || {
            let _open = open;
            let mut bytes = [0; 8192];
            loop {
                match stream.read(&mut bytes) {
                    Ok(0) => break,
                    Ok(read) => lock(&stderr).push(&bytes[..read]),
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(_) => break,
                }
            }
        });
    }
    closed
}

/// Ignores poisoning: a panic cannot leave these values half changed.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
