//! A file that a command reads, or stdin if its name is `-`.

use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::os::fd::AsFd as _;
use std::path::Path;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::error::{Error, Result};

/// How long a read waits. A program that writes all the time needs less.
const PAUSE: Duration = Duration::from_millis(50);

/// A file. While it pauses, a read fails with `WouldBlock`.
pub(super) struct Input(File);

impl Input {
    pub(super) fn open(path: &Path) -> Result<Input> {
        Ok(Input(open(path)?))
    }
}

impl Read for Input {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let most = Timespec::try_from(PAUSE).ok();
        let mut polled = [PollFd::new(&self.0, PollFlags::IN)];
        // There is more, or the end.
        match poll(&mut polled, most.as_ref()).is_ok_and(|ready| ready > 0) {
            true => self.0.read(bytes),
            false => Err(ErrorKind::WouldBlock.into()),
        }
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

/// Reads a file of text, without the byte order mark that some programs write at its start.
pub(crate) fn read_text(path: &Path) -> Result<String> {
    let mut text = String::new();
    let read = open(path)?.read_to_string(&mut text);
    read.map_err(|error| unreadable(path, error))?;
    Ok(super::without_mark(&text).to_owned())
}

pub(super) fn unreadable(path: &Path, error: io::Error) -> Error {
    Error::caused_by(format!("could not read {}", shown(path)), error)
}

/// The name of a file in messages.
pub(crate) fn shown(path: &Path) -> String {
    match path == Path::new("-") {
        true => "stdin".to_owned(),
        false => format!("`{}`", path.display()),
    }
}
