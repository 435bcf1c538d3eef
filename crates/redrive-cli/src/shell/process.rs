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
    /// Kept, for [`Process::stdout`].
    Keep,
}

/// How a command ended.
#[derive(Clone, Copy, Debug)]
pub(super) enum Ended {
    Exited(ExitStatus),
    Killed,
}

/// A running command, and what it has printed.
pub(super) struct Process {
    child: Child,
    /// Its process group, which is its own id. No other one can have it before the child is waited for.
    group: Pid,
    /// Those that it has not closed.
    streams: Vec<(Stream, File)>,
    errors: Stderr,
    /// Its stdout, if that is kept.
    kept: Option<Vec<u8>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stream {
    Stdout,
    Stderr,
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
    ) -> io::Result<Process> {
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
        let group = Pid::from_raw(child.id().cast_signed());
        commands.push(group);
        let (out, err) = (child.stdout.take(), child.stderr.take());
        let out = out.map(|stream| (Stream::Stdout, OwnedFd::from(stream)));
        let err = err.map(|stream| (Stream::Stderr, OwnedFd::from(stream)));
        let streams = out.into_iter().chain(err);
        let streams = streams.map(|(of, stream)| (of, File::from(stream)));
        Ok(Process {
            child,
            group,
            streams: streams.collect(),
            errors: Stderr::default(),
            kept: (stdout == Stdout::Keep).then(Vec::new),
        })
    }

    /// Waits until the command ends. A cancelled command gets SIGTERM, and SIGKILL after the grace.
    ///
    /// A command that succeeds although it was cancelled counts as exited.
    pub(super) fn wait(
        &mut self,
        is_cancelled: impl Fn() -> bool,
        running: &Running,
        grace: Duration,
    ) -> io::Result<Ended> {
        let mut pause = Duration::from_millis(1);
        let mut terminated: Option<Instant> = None;
        loop {
            // A closed stderr usually means that the command is about to end.
            match self.has_open(Stream::Stderr) {
                true => self.read(CHECK_EVERY),
                false => {
                    self.read(pause);
                    pause = (pause * 2).min(CHECK_EVERY);
                }
            }
            // A process of its group that ignores SIGTERM has the grace too, and must not outlive it.
            let waits_for_others =
                |at: Instant| self.has_open(Stream::Stderr) && at.elapsed() <= grace;
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

    /// Its stdout, up to [`MAX_STDOUT`] and one more byte. `None` if it was not kept, or if a background process keeps it
    /// open.
    pub(super) fn stdout(mut self) -> Option<Vec<u8>> {
        self.read_until_closed(Stream::Stdout, STDOUT_GRACE);
        match self.has_open(Stream::Stdout) {
            true => None,
            false => self.kept,
        }
    }

    /// Its stderr. Waits a short time for its end, because a background process may keep it open.
    pub(super) fn stderr(&mut self) -> String {
        self.read_until_closed(Stream::Stderr, STDERR_GRACE);
        self.errors.text()
    }

    fn has_open(&self, stream: Stream) -> bool {
        self.streams.iter().any(|(of, _)| *of == stream)
    }

    fn read_until_closed(&mut self, stream: Stream, most: Duration) {
        let begun = Instant::now();
        while self.has_open(stream) && begun.elapsed() < most {
            self.read(most.saturating_sub(begun.elapsed()));
        }
    }

    /// Waits for output, and reads what there is. A stream that cannot be read counts as closed.
    fn read(&mut self, most: Duration) {
        let streams = self.streams.iter();
        let polled = streams.map(|(_, stream)| PollFd::new(stream, PollFlags::IN));
        let mut polled: Vec<PollFd<'_>> = polled.collect();
        let timeout = Timespec::try_from(most).ok();
        match poll(&mut polled, timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            // The host has no memory for it at this moment.
            Err(_) => thread::sleep(most),
        }
        let ready = polled.iter().map(|polled| !polled.revents().is_empty());
        let mut ready = ready.collect::<Vec<_>>().into_iter();
        let (errors, kept) = (&mut self.errors, &mut self.kept);
        self.streams.retain_mut(|(of, stream)| {
            if ready.next() != Some(true) {
                return true;
            }
            let mut bytes = [0; 8192];
            let length = read(stream, &mut bytes);
            match (*of, kept.as_mut()) {
                (Stream::Stderr, _) => errors.push(&bytes[..length]),
                (Stream::Stdout, Some(kept)) => {
                    // The rest is dropped, so that the command does not fail for writing too much.
                    let room = (MAX_STDOUT + 1).saturating_sub(kept.len());
                    kept.extend_from_slice(&bytes[..length.min(room)]);
                }
                (Stream::Stdout, None) => {}
            }
            length > 0
        });
    }
}

fn signal(group: Pid, signal: Signal) {
    // Fails if the group ended in the meantime.
    _ = killpg(group, signal);
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
