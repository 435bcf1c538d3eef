//! A file that a command reads, or stdin if its name is `-`.

use std::fs::File;
use std::io::{self, BufRead, BufReader, ErrorKind, Read};
use std::ops::ControlFlow;
use std::os::fd::AsFd as _;
use std::path::Path;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::error::{Error, Result};
use crate::stop::StopSignal;

/// How long a read waits. A program that writes all the time needs less.
const PAUSE: Duration = Duration::from_millis(10);
/// The interval between two checks for signals while the input pauses.
const CHECK_SIGNALS_EVERY: Duration = Duration::from_millis(100);

/// A file that is read line by line. While it pauses, a read fails with `WouldBlock`, so that the lines before need not
/// wait.
pub(crate) struct Input {
    reader: BufReader<File>,
    stop: Option<StopSignal>,
    is_stopped: bool,
}

impl Input {
    /// Opens a file.
    pub(super) fn open(path: &Path) -> Result<Input> {
        Ok(Input {
            reader: BufReader::with_capacity(1 << 16, open(path)?),
            stop: None,
            is_stopped: false,
        })
    }

    /// Reads no more once a signal has arrived.
    pub(super) fn until(&mut self, stop: StopSignal) {
        self.stop = Some(stop);
    }

    /// Whether a signal has arrived.
    pub(super) fn is_stopped(&mut self) -> bool {
        let stop = self.stop.as_mut();
        self.is_stopped |= stop.is_some_and(|stop| stop.check().is_break());
        self.is_stopped
    }

    /// Waits a moment for more. Breaks if a signal has arrived.
    pub(super) fn wait(&mut self) -> ControlFlow<()> {
        self.is_ready(CHECK_SIGNALS_EVERY);
        match self.is_stopped() {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    }

    /// Whether there is more, or the end, within this time.
    fn is_ready(&self, most: Duration) -> bool {
        let mut polled = [PollFd::new(self.reader.get_ref(), PollFlags::IN)];
        let most = Timespec::try_from(most).ok();
        poll(&mut polled, most.as_ref()).is_ok_and(|ready| ready > 0)
    }
}

impl Read for Input {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let read = self.fill_buf()?.read(bytes)?;
        self.consume(read);
        Ok(read)
    }
}

impl BufRead for Input {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        let is_empty = self.reader.buffer().is_empty();
        match is_empty && (self.is_stopped() || !self.is_ready(PAUSE)) {
            true => Err(ErrorKind::WouldBlock.into()),
            false => self.reader.fill_buf(),
        }
    }

    fn consume(&mut self, bytes: usize) {
        self.reader.consume(bytes);
    }
}

fn open(path: &Path) -> Result<File> {
    let opened = match path == Path::new("-") {
        true => io::stdin().as_fd().try_clone_to_owned().map(File::from),
        false => File::open(path),
    };
    opened.map_err(|error| unreadable(path, error))
}

/// Reads a file of at most so many bytes; `None`: it has more.
pub(crate) fn read(path: &Path, max: u64) -> Result<Option<Vec<u8>>> {
    let mut bytes = Vec::new();
    let read = open(path)?.take(max + 1).read_to_end(&mut bytes);
    read.map_err(|error| unreadable(path, error))?;
    Ok((bytes.len() as u64 <= max).then_some(bytes))
}

pub(crate) fn unreadable(path: &Path, error: io::Error) -> Error {
    Error::caused_by(format!("could not read {}", shown(path)), error)
}

/// The name of a file in messages.
pub(crate) fn shown(path: &Path) -> String {
    match path == Path::new("-") {
        true => "stdin".to_owned(),
        false => format!("`{}`", path.display()),
    }
}
