//! Reads NDJSON with bounded memory and names bad lines by their number.

use std::io::{self, BufRead as _, BufReader, ErrorKind, Read};
use std::path::{Path, PathBuf};

use super::input::{Input, unreadable};
use super::without_mark;
use crate::stop::StopSignal;

/// The lines of a file. Blank lines are skipped but counted.
pub(crate) struct Lines<'a> {
    reader: BufReader<Box<dyn Read + 'a>>,
    /// Ends them when a signal arrives, after those that have come.
    pub(crate) stop: Option<StopSignal>,
    /// The file, for messages.
    path: PathBuf,
    /// What has come of the next line.
    line: Vec<u8>,
    number: u64,
    bytes: u64,
    /// The limit of a line, without its line break.
    max_bytes: usize,
}

/// A line that cannot be read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct BadLine {
    /// The line number, from 1.
    pub(crate) number: u64,
    pub(crate) error: String,
}

impl<'a> Lines<'a> {
    /// Reads the lines of a file, of at most `max_bytes` each.
    pub(crate) fn of(path: &Path, max_bytes: usize) -> crate::error::Result<Lines<'static>> {
        let mut lines = Lines::new(Input::open(path)?, max_bytes);
        path.clone_into(&mut lines.path);
        Ok(lines)
    }

    /// Reads lines of at most `max_bytes`. A read that fails with `WouldBlock` is a pause.
    pub(crate) fn new(reader: impl Read + 'a, max_bytes: usize) -> Lines<'a> {
        Lines {
            reader: BufReader::with_capacity(1 << 16, Box::new(reader)),
            stop: None,
            path: PathBuf::new(),
            line: Vec::new(),
            number: 0,
            bytes: 0,
            max_bytes,
        }
    }

    /// Parses the next lines, at most so many and of about so many bytes; `None` at the end of the file. If the
    /// input pauses, returns those that have come. Bad lines go to `reject`, which may end it all.
    pub(crate) fn next_chunk<T>(
        &mut self,
        (max_lines, max_bytes): (usize, u64),
        parse: impl Fn(&str) -> Result<T, String>,
        mut reject: impl FnMut(BadLine) -> crate::error::Result<()>,
    ) -> crate::error::Result<Option<Vec<T>>> {
        let (start, mut chunk) = (self.bytes, Vec::new());
        while chunk.len() < max_lines && self.bytes - start <= max_bytes {
            let is_stopped = self.stop.is_some_and(|stop| stop.check().is_break());
            if chunk.is_empty() && is_stopped {
                return Ok(None);
            }
            match self.next_as(&parse) {
                Ok(Some(Ok(parsed))) => chunk.push(parsed),
                Ok(Some(Err(bad))) => reject(bad)?,
                Ok(None) => return Ok((!chunk.is_empty()).then_some(chunk)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    if !chunk.is_empty() {
                        break;
                    }
                }
                Err(error) => return Err(unreadable(&self.path, error)),
            }
        }
        Ok(Some(chunk))
    }

    /// The bytes read so far.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Parses the next line; `None` at the end of the file.
    pub(crate) fn next_as<T>(
        &mut self,
        parse: impl FnOnce(&str) -> Result<T, String>,
    ) -> io::Result<Option<Result<T, BadLine>>> {
        // A line of exactly the limit, and its line break.
        let limit = self.max_bytes + 2;
        loop {
            // After a pause of the input, the rest of the line.
            let room = (limit - self.line.len()) as u64;
            let mut rest = self.reader.by_ref().take(room);
            rest.read_until(b'\n', &mut self.line)?;
            let too_long = self.line.len() == limit && !self.line.ends_with(b"\n");
            if too_long {
                self.bytes += self.reader.skip_until(b'\n')? as u64;
            }
            let line = std::mem::take(&mut self.line);
            if line.is_empty() {
                return Ok(None);
            }
            self.number += 1;
            self.bytes += line.len() as u64;
            let bad = |error: String| {
                Ok(Some(Err(BadLine {
                    number: self.number,
                    error,
                })))
            };
            if too_long {
                return bad(format!("the line exceeds {} bytes", self.max_bytes));
            }
            let Ok(text) = std::str::from_utf8(&line) else {
                return bad("the line is not UTF-8".to_owned());
            };
            let text = match self.number {
                1 => without_mark(text),
                _ => text,
            };
            let text = text.trim_matches([' ', '\t', '\r', '\n']);
            if text.is_empty() {
                continue;
            }
            return match parse(text) {
                Ok(value) => Ok(Some(Ok(value))),
                Err(error) => bad(error),
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use redrive::NewJob;
    use redrive::limits::MAX_PAYLOAD_BYTES;

    use super::*;

    #[test]
    fn a_line_is_read_or_named_by_its_number_and_error() {
        let string = |length: usize| format!("\"{}\"", "x".repeat(length - 2)).into_bytes();
        let most = MAX_PAYLOAD_BYTES;
        let [long, at_limit, above] = [3 * most, most, most + 1].map(string);
        let rows: [(&[u8], &str); 11] = [
            (b"\xef\xbb\xbf{\"a\":1}\r", ""),
            (b"", ""),
            (b"  ", ""),
            (b"[2]", ""),
            (b"broken", "not JSON"),
            (b"\"\\u0000\"", "NUL"),
            (b"\"\xff\"", "not UTF-8"),
            (&long, "exceeds"),
            (&at_limit, ""),
            (&above, "limit"),
            (b"1 2", "not JSON"),
        ];
        let file = rows.map(|(line, _)| line).join(&b'\n');
        let mut lines = Lines::new(&*file, most);
        let job = |text: &str| NewJob::raw("k", text).map_err(|why| why.to_string());
        let read = std::iter::from_fn(|| lines.next_as(job).expect("memory can be read"));
        let read: Vec<Result<NewJob, BadLine>> = read.collect();
        assert_eq!(read.len(), rows.len() - 2, "blank lines are skipped");
        let bad: Vec<BadLine> = read.into_iter().filter_map(Result::err).collect();
        let expected = rows.iter().zip(1..).filter(|((_, why), _)| !why.is_empty());
        assert_eq!(bad.len(), expected.clone().count(), "{bad:?}");
        for (bad, ((_, why), number)) in bad.iter().zip(expected) {
            assert!(bad.number == number && bad.error.contains(why), "{bad:?}");
        }
    }

    /// Pieces of an input, which pauses at an empty one.
    struct Pieces(VecDeque<&'static [u8]>);

    impl Read for Pieces {
        fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
            match self.0.pop_front() {
                Some([]) => Err(ErrorKind::WouldBlock.into()),
                Some(piece) => {
                    bytes[..piece.len()].copy_from_slice(piece);
                    Ok(piece.len())
                }
                None => Ok(0),
            }
        }
    }

    #[test]
    fn a_pause_of_the_input_keeps_no_line_waiting() {
        let pieces: [&[u8]; 10] = [
            b"1\n22\n3",
            b"",
            b"",
            b"3\n",
            b"1234",
            b"",
            b"567\n44\n",
            b"",
            b"5",
            b"5",
        ];
        let mut lines = Lines::new(Pieces(pieces.into()), 2);
        let mut bad = Vec::new();
        let mut chunks = Vec::new();
        let number = |text: &str| text.parse::<u32>().map_err(|error| error.to_string());
        while let Some(chunk) = lines
            .next_chunk((10, 100), number, |line| {
                bad.push(line.number);
                Ok(())
            })
            .expect("no error")
        {
            chunks.push(chunk);
        }
        assert_eq!(chunks, [vec![1, 22], vec![33], vec![44], vec![55]]);
        assert_eq!((bad, lines.bytes()), (vec![4], 21));
    }
}
