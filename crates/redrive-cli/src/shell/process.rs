//! Starts a command in its own process group and waits until it ends, is cancelled or is killed.
//!
//! No thread is needed: the input is a file in memory that is complete before the command starts, and
//! the caller reads the output while it waits.

use std::fs::File;
use std::io::{self, Read, Seek as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, ExitStatus, Stdio};
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

use super::kept::Kept;

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

/// A running command, and what it has printed.
pub(super) struct Process {
    child: Child,
    /// Its process group, which is its own id. No other one can have it before the child is waited for.
    group: Pid,
    stdout: Stream,
    stderr: Stream,
}

/// A stream of a command, as far as it was read.
struct Stream {
    /// `None`: it is closed, or goes elsewhere.
    open: Option<File>,
    kept: Kept,
}

impl Stream {
    fn of(source: Option<impl Into<OwnedFd>>, kept: Kept) -> Stream {
        let open = source.map(|source| File::from(source.into()));
        Stream { open, kept }
    }

    /// Reads what there is. A stream that cannot be read counts as closed.
    fn receive(&mut self) {
        let Some(open) = &mut self.open else { return };
        let mut bytes = [0; 8192];
        match open.read(&mut bytes) {
            Ok(length @ 1..) => self.kept.push(&bytes[..length]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Ok(0) | Err(_) => self.open = None,
        }
    }
}

impl Process {
    /// Starts `sh -c command` with `input` as its stdin, and adds it to the running commands. What it writes to a pipe
    /// is kept for [`Process::stdout`].
    ///
    /// # Errors
    /// If the host refuses what it needs. Nothing has started then.
    pub(super) fn start(
        command: &str,
        environment: &[(&'static str, String)],
        input: &[u8],
        stdout: fn() -> Stdio,
        running: &Running,
    ) -> io::Result<Process> {
        let mut sh = Command::new("sh");
        sh.arg("-c")
            .arg(command)
            .envs(environment.iter().map(|(name, value)| (name, value)))
            .stdout(stdout())
            .stderr(Stdio::piped())
            // Ctrl-C must reach only this process, which then decides how the command ends.
            .process_group(0);
        // Locked until the command is among them, or it could be taken for an orphan.
        let mut commands = lock(&running.commands);
        let mut child = sh.stdin(file_of(input)?).spawn()?;
        let group = Pid::from_raw(child.id().cast_signed());
        commands.push(group);
        // The rest is dropped, so that the command does not fail for writing too much.
        let stdout = Stream::of(child.stdout.take(), Kept::head(MAX_STDOUT + 1));
        let stderr = Stream::of(child.stderr.take(), Kept::ends());
        Ok(Process {
            child,
            group,
            stdout,
            stderr,
        })
    }

    /// Waits until the command ends; `None`: it was killed. A cancelled command gets SIGTERM, and SIGKILL after the
    /// grace.
    ///
    /// A command that succeeds although it was cancelled counts as exited.
    pub(super) fn wait(
        &mut self,
        is_cancelled: impl Fn() -> bool,
        running: &Running,
        grace: Duration,
    ) -> io::Result<Option<ExitStatus>> {
        let mut pause = Duration::from_millis(1);
        let mut terminated: Option<Instant> = None;
        loop {
            // A closed stderr usually means that the command is about to end.
            if self.stderr.open.is_some() {
                self.read(CHECK_EVERY);
            } else {
                self.read(pause);
                pause = (pause * 2).min(CHECK_EVERY);
            }
            // A process of its group that ignores SIGTERM has the grace too, and must not outlive it.
            let waits_for_others =
                |at: Instant| self.stderr.open.is_some() && at.elapsed() <= grace;
            let is_alive = matches!(
                waitid(Id::Pid(self.group), LOOK),
                Ok(WaitStatus::StillAlive)
            );
            if !is_alive && !terminated.is_some_and(waits_for_others) {
                let is_killed = terminated.is_some() || running.is_ending();
                if is_killed {
                    signal(self.group, Signal::SIGKILL);
                }
                // Locked until its group may be that of another process.
                let mut commands = lock(&running.commands);
                commands.retain(|group| *group != self.group);
                let status = self.child.wait()?;
                if !is_killed || status.success() {
                    return Ok(Some(status));
                }
                running.killed.fetch_add(1, Ordering::Relaxed);
                return Ok(None);
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

    /// Its stdout, up to [`MAX_STDOUT`] and one more byte, if it is kept. `None` if a background process keeps it open.
    pub(super) fn stdout(mut self) -> Option<Vec<u8>> {
        self.read_until_closed(|of| &of.stdout, STDOUT_GRACE);
        match self.stdout.open {
            Some(_) => None,
            None => Some(self.stdout.kept.bytes),
        }
    }

    /// Its stderr. Waits a short time for its end, because a background process may keep it open.
    pub(super) fn stderr(&mut self) -> String {
        self.read_until_closed(|of| &of.stderr, STDERR_GRACE);
        self.stderr.kept.text()
    }

    fn read_until_closed(&mut self, stream: fn(&Process) -> &Stream, most: Duration) {
        let begun = Instant::now();
        while stream(self).open.is_some() && begun.elapsed() < most {
            self.read(most.saturating_sub(begun.elapsed()));
        }
    }

    /// Waits for output, and reads what there is.
    fn read(&mut self, most: Duration) {
        let streams = [&mut self.stdout, &mut self.stderr].into_iter();
        let mut streams: Vec<&mut Stream> = streams.filter(|of| of.open.is_some()).collect();
        let open = streams.iter().filter_map(|stream| stream.open.as_ref());
        let polled = open.map(|open| PollFd::new(open, PollFlags::IN));
        let mut polled: Vec<PollFd<'_>> = polled.collect();
        let timeout = Timespec::try_from(most).ok();
        match poll(&mut polled, timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            // The host has no memory for it at this moment.
            Err(_) => thread::sleep(most),
        }
        let ready = polled.iter().map(|polled| !polled.revents().is_empty());
        let ready: Vec<bool> = ready.collect();
        let ready = streams.iter_mut().zip(ready).filter(|(_, ready)| *ready);
        for (stream, _) in ready {
            stream.receive();
        }
    }
}

fn signal(group: Pid, signal: Signal) {
    // Fails if the group ended in the meantime.
    _ = killpg(group, signal);
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
}

/// Ignores poisoning: a panic cannot leave these values half changed.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
