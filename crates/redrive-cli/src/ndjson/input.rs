//! A file that a command reads, or stdin if its name is `-`.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read as _};
use std::path::Path;

use crate::error::{Error, Result};

/// Opens a file.
pub(crate) fn open(path: &Path) -> Result<Box<dyn BufRead>> {
    const BUFFER: usize = 1 << 16;
    if path == Path::new("-") {
        return Ok(Box::new(BufReader::with_capacity(BUFFER, io::stdin())));
    }
    let file = File::open(path).map_err(|error| unreadable(path, error))?;
    Ok(Box::new(BufReader::with_capacity(BUFFER, file)))
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
