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

use nix::sys::signal::{Signal, killpg};
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid, waitpid};
use nix::unistd::Pid;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::io::Errno;

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
pub(super) struct Process {
    child: Child,
    /// Its process group, which is its own id. No other one can have it before the child is waited for.
    group: Pid,
}

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
        let mut commands = lock(&running.commands);
        let mut child = sh.stdin(file_of(input)?).spawn()?;
        let output = Output {
            stderr: child.stderr.take(),
            stdout: child.stdout.take(),
            errors: Stderr::default(),
            kept: Vec::new(),
            is_kept: stdout == Stdout::Keep,
        };
        let group = Pid::from_raw(child.id().cast_signed());
        commands.push(group);
        Ok((Process { child, group }, output))
    }

    /// Waits until the command ends. A cancelled command gets SIGTERM, and SIGKILL after the grace.
    ///
    /// A command that succeeds although it was cancelled counts as exited.
    pub(super) fn wait(
        &mut self,
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
            let is_alive = matches!(
                waitid(Id::Pid(self.group), LOOK),
                Ok(WaitStatus::StillAlive)
            );
            if !is_alive && !terminated.is_some_and(waits_for_others) {
                let is_killed = terminated.is_some() || running.is_ending();
                if is_killed {
                    signal(self.group, Signal::SIGKILL);
                }
                return running.take(self, |status| is_killed && !status.success());
            }
            match terminated {
                None if is_cancelled() || running.is_ending() => {
                    signal(self.group, Signal::SIGTERM);
                    terminated = Some(Instant::now());
                }
                Some(at) if at.elapsed() > grace => signal(self.group, Signal::SIGKILL),
                Some(_) | None => {}
            }
        }
    }
}

fn signal(group: Pid, signal: Signal) {
    // Fails if the group ended in the meantime.
    _ = killpg(group, signal);
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
    /// Their process groups.
    commands: Mutex<Vec<Pid>>,
    pub(super) is_ending: Arc<AtomicBool>,
    /// How many of those that have ended were killed.
    pub(super) killed: AtomicUsize,
}

impl Running {
    /// Takes leave of a command that has ended.
    fn take(
        &self,
        process: &mut Process,
        is_killed: impl FnOnce(ExitStatus) -> bool,
    ) -> io::Result<Ended> {
        // Locked until its group may be that of another process.
        let mut commands = lock(&self.commands);
        commands.retain(|group| *group != process.group);
        let status = process.child.wait()?;
        if !is_killed(status) {
            return Ok(Ended::Exited(status));
        }
        self.killed.fetch_add(1, Ordering::Relaxed);
        Ok(Ended::Killed)
    }

    pub(super) fn is_ending(&self) -> bool {
        self.is_ending.load(Ordering::Relaxed)
    }

    /// Kills every running command and its process group. Returns how many were killed, now or before.
    pub(super) fn kill_all(&self) -> usize {
        self.is_ending.store(true, Ordering::Relaxed);
        let commands = lock(&self.commands);
        for group in &*commands {
            signal(*group, Signal::SIGKILL);
        }
        commands.len() + self.killed.load(Ordering::Relaxed)
    }

    /// Takes leave of children that are no commands: processes that a command left behind, if this
    /// process is the first one of a container.
    pub(super) fn reap_orphans(&self) {
        let commands = lock(&self.commands);
        // Fails without children.
        while let Ok(WaitStatus::Exited(pid, _) | WaitStatus::Signaled(pid, ..)) =
            waitid(Id::All, LOOK)
        {
            // The thread that waits for a command takes it within moments.
            if commands.contains(&pid) || waitpid(pid, Some(WaitPidFlag::WNOHANG)).is_err() {
                return;
            }
        }
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        lock(&self.commands).is_empty()
    }
}

/// Ignores poisoning: a panic cannot leave these values half changed.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
