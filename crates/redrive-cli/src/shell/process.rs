//! Starts a command in its own process group and waits until it ends, is cancelled or is killed.
//!
//! No thread is needed: the input is a file in memory that is complete before the command starts, and
//! the caller reads the output while it waits.

use std::fs::File;
use std::io::{self, Read, Seek as _, Write as _};
use std::os::fd::{AsFd as _, BorrowedFd};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, ChildStderr, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid, waitpid};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::io::Errno;
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
/// Looks at a child that has ended, which stays to be waited for.
const LOOK: WaitPidFlag = WaitPidFlag::WEXITED
    .union(WaitPidFlag::WNOHANG)
    .union(WaitPidFlag::WNOWAIT);

/// The destination of a command's stdout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stdout {
    /// The stdout of this process.
    Inherit,
    /// Discarded.
    Null,
    /// Kept, for [`Output::stdout`].
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
pub(super) struct Process(Arc<Mutex<Child>>);

pub(super) struct Output {
    /// `None`: the command has closed it.
    stderr: Option<ChildStderr>,
    /// `None`: it is not kept, or the command has closed it.
    stdout: Option<ChildStdout>,
    errors: Stderr,
    kept: Vec<u8>,
    is_kept: bool,
}

impl Process {
    /// Starts `sh -c command` with `input` as its stdin, and adds it to the running commands.
    ///
    /// # Errors
    /// If the host refuses what it needs. Nothing has started then.
    pub(super) fn start(
        command: &str,
        environment: &[(&'static str, String)],
        input: &[u8],
        stdout: Stdout,
        running: &Running,
    ) -> io::Result<(Process, Output)> {
        let mut sh = Command::new("sh");
        sh.arg("-c")
            .arg(command)
            .envs(environment.iter().map(|(name, value)| (name, value)))
            .stdout(match stdout {
                Stdout::Inherit => Stdio::inherit(),
                Stdout::Null => Stdio::null(),
                Stdout::Keep => Stdio::piped(),
            })
            .stderr(Stdio::piped())
            // Ctrl-C must reach only this process, which then decides how the command ends.
            .process_group(0);
        // Locked until the command is among them, or it could be taken for an orphan.
        let mut processes = lock(&running.processes);
        let mut child = sh.stdin(file_of(input)?).spawn()?;
        let output = Output {
            stderr: child.stderr.take(),
            stdout: child.stdout.take(),
            errors: Stderr::default(),
            kept: Vec::new(),
            is_kept: stdout == Stdout::Keep,
        };
        let process = Process(Arc::new(Mutex::new(child)));
        processes.push(process.clone());
        Ok((process, output))
    }

    /// Waits until the command ends. A cancelled command gets SIGTERM, and SIGKILL after the grace.
    ///
    /// A command that succeeds although it was cancelled counts as exited.
    pub(super) fn wait(
        &self,
        output: &mut Output,
        is_cancelled: impl Fn() -> bool,
        running: &Running,
        grace: Duration,
    ) -> io::Result<Ended> {
        let mut pause = Duration::from_millis(1);
        let mut terminated: Option<Instant> = None;
        loop {
            // A closed stderr usually means that the command is about to end.
            match output.stderr.is_some() {
                true => output.read(CHECK_EVERY),
                false => {
                    output.read(pause);
                    pause = (pause * 2).min(CHECK_EVERY);
                }
            }
            // A process of its group that ignores SIGTERM has the grace too, and must not outlive it.
            let waits_for_others = |at: Instant| output.stderr.is_some() && at.elapsed() <= grace;
            if self.has_ended() && !terminated.is_some_and(waits_for_others) {
                let is_killed = terminated.is_some() || running.is_ending();
                if is_killed {
                    self.signal(Signal::KILL);
                }
                let status = lock(&self.0).wait()?;
                return Ok(match is_killed && !status.success() {
                    true => Ended::Killed,
                    false => Ended::Exited(status),
                });
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

    /// Whether the command has ended. It stays to be waited for.
    fn has_ended(&self) -> bool {
        !matches!(state(&lock(&self.0)), Ok(WaitStatus::StillAlive))
    }

    /// Signals the process group. The group id cannot be reused before the child is waited for.
    fn signal(&self, signal: Signal) {
        let child = lock(&self.0);
        if state(&child).is_ok()
            && let Some(group) = i32::try_from(child.id()).ok().and_then(Pid::from_raw)
        {
            // Fails if the group ended in the meantime.
            _ = kill_process_group(group, signal);
        }
    }
}

/// Returns whether a child is alive or has ended. Fails if it was waited for.
fn state(child: &Child) -> nix::Result<WaitStatus> {
    let pid = nix::unistd::Pid::from_raw(i32::try_from(child.id()).unwrap_or(i32::MAX));
    waitid(Id::Pid(pid), LOOK)
}

impl Output {
    /// The command's stdout, up to [`MAX_STDOUT`] and one more byte. `None` if it was not kept, or if a
    /// background process keeps it open.
    pub(super) fn stdout(mut self) -> Option<Vec<u8>> {
        self.read_until(STDOUT_GRACE, |output| output.stdout.is_none());
        (self.is_kept && self.stdout.is_none()).then_some(self.kept)
    }

    /// The command's stderr. Waits a short time for its end, because a background process may keep it
    /// open.
    pub(super) fn stderr(&mut self) -> String {
        self.read_until(STDERR_GRACE, |output| output.stderr.is_none());
        self.errors.text()
    }

    fn read_until(&mut self, most: Duration, is_enough: impl Fn(&Output) -> bool) {
        let begun = Instant::now();
        while !is_enough(self) && begun.elapsed() < most {
            self.read(most.saturating_sub(begun.elapsed()));
        }
    }

    /// Waits for output, and reads what there is. A stream that cannot be read counts as closed.
    fn read(&mut self, most: Duration) {
        let streams = [
            self.stderr.as_ref().map(ChildStderr::as_fd),
            self.stdout.as_ref().map(ChildStdout::as_fd),
        ];
        let [has_stderr, has_stdout] = ready(streams, most);
        let mut bytes = [0; 8192];
        if has_stderr && let Some(stderr) = &mut self.stderr {
            match read(stderr, &mut bytes) {
                0 => self.stderr = None,
                read => self.errors.push(&bytes[..read]),
            }
        }
        if has_stdout && let Some(stdout) = &mut self.stdout {
            match read(stdout, &mut bytes) {
                0 => self.stdout = None,
                read => {
                    // The rest is dropped, so that the command does not fail for writing too much.
                    let room = (MAX_STDOUT + 1).saturating_sub(self.kept.len());
                    self.kept.extend_from_slice(&bytes[..read.min(room)]);
                }
            }
        }
    }
}

/// Returns which streams have output or are closed, after at most this time.
fn ready(streams: [Option<BorrowedFd<'_>>; 2], most: Duration) -> [bool; 2] {
    let mut polled: Vec<PollFd<'_>> = streams
        .iter()
        .flatten()
        .map(|stream| PollFd::from_borrowed_fd(*stream, PollFlags::IN))
        .collect();
    let timeout = Timespec::try_from(most).ok();
    match poll(&mut polled, timeout.as_ref()) {
        Ok(_) | Err(Errno::INTR) => {}
        // The host has no memory for it at this moment.
        Err(_) => thread::sleep(most),
    }
    let mut events = polled.iter().map(|polled| !polled.revents().is_empty());
    streams.map(|stream| stream.is_some() && events.next() == Some(true))
}

/// Reads from a stream that is ready. 0: it is closed.
fn read(stream: &mut impl Read, bytes: &mut [u8]) -> usize {
    loop {
        match stream.read(bytes) {
            Ok(read) => return read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return 0,
        }
    }
}

/// Returns a file in memory with this content. A pipe would need a thread that writes to it, and would
/// be cut off if this process were killed.
fn file_of(content: &[u8]) -> io::Result<File> {
    const NAME: &str = "redrive-input";
    let created = match memfd_create(NAME, MemfdFlags::CLOEXEC | MemfdFlags::NOEXEC_SEAL) {
        // Linux before 6.3 does not know the second flag.
        Err(Errno::INVAL) => memfd_create(NAME, MemfdFlags::CLOEXEC),
        created => created,
    };
    let mut file = File::from(created?);
    file.write_all(content)?;
    file.rewind()?;
    Ok(file)
}

/// The running commands of a shell.
#[derive(Debug, Default)]
pub(super) struct Running {
    processes: Mutex<Vec<Process>>,
    pub(super) is_ending: Arc<AtomicBool>,
    /// How many of those that have ended were killed.
    pub(super) killed: AtomicUsize,
}

impl Running {
    /// Forgets a command that has ended in this way.
    pub(super) fn remove(&self, process: &Process, ended: &io::Result<Ended>) {
        let mut processes = lock(&self.processes);
        processes.retain(|other| !Arc::ptr_eq(&process.0, &other.0));
        let is_killed = matches!(ended, Ok(Ended::Killed));
        self.killed
            .fetch_add(usize::from(is_killed), Ordering::Relaxed);
    }

    pub(super) fn is_ending(&self) -> bool {
        self.is_ending.load(Ordering::Relaxed)
    }

    /// Kills every running command and its process group. Returns how many were killed, now or before.
    pub(super) fn kill_all(&self) -> usize {
        self.is_ending.store(true, Ordering::Relaxed);
        let processes = lock(&self.processes);
        for process in &*processes {
            process.signal(Signal::KILL);
        }
        processes.len() + self.killed.load(Ordering::Relaxed)
    }

    /// Takes leave of children that are no commands: processes that a command left behind, if this
    /// process is the first one of a container.
    pub(super) fn reap_orphans(&self) {
        let processes = lock(&self.processes);
        // Fails without children.
        while let Ok(WaitStatus::Exited(pid, _) | WaitStatus::Signaled(pid, ..)) =
            waitid(Id::All, LOOK)
        {
            let is_command = |process: &Process| {
                i32::try_from(lock(&process.0).id()).is_ok_and(|id| id == pid.as_raw())
            };
            // The thread that waits for a command takes it within moments.
            if processes.iter().any(is_command) || waitpid(pid, Some(WaitPidFlag::WNOHANG)).is_err()
            {
                return;
            }
        }
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        lock(&self.processes).is_empty()
    }
}

/// Ignores poisoning: a panic cannot leave these values half changed.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
