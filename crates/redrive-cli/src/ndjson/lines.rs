//! Reads NDJSON with bounded memory and names bad lines by their number.

use std::io::{self, BufRead, Read as _};

use redrive::NewJob;

/// The lines of a file. Blank lines are skipped but counted.
#[derive(Debug)]
pub(crate) struct Lines<R> {
    reader: R,
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

impl<R: BufRead> Lines<R> {
    /// Reads lines of at most `max_bytes`.
    pub(crate) fn new(reader: R, max_bytes: usize) -> Lines<R> {
        Lines {
            reader,
            number: 0,
            bytes: 0,
            max_bytes,
        }
    }

    /// The bytes read so far.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The next payload as a job, or its bad line; `None` at the end of the file.
    pub(crate) fn next_job(&mut self, kind: &str) -> io::Result<Option<Result<NewJob, BadLine>>> {
        self.next_as(|text| {
            NewJob::raw(kind, text).map_err(|error| crate::error::Error::from(error).one_line())
        })
    }

    /// Parses the next line; `None` at the end of the file.
    pub(crate) fn next_as<T>(
        &mut self,
        parse: impl FnOnce(&str) -> Result<T, String>,
    ) -> io::Result<Option<Result<T, BadLine>>> {
        // A line of exactly the limit, and its line break.
        let limit = self.max_bytes as u64 + 2;
        loop {
            let mut line = Vec::new();
            let read = self
                .reader
                .by_ref()
                .take(limit)
                .read_until(b'\n', &mut line)?;
            if read == 0 {
                return Ok(None);
            }
            self.number += 1;
            self.bytes += read as u64;
            let mut too_long = false;
            if read as u64 == limit && line.last() != Some(&b'\n') {
                self.bytes += self.reader.skip_until(b'\n')? as u64;
                too_long = true;
            }
            let bad = |error: String| {
                Ok(Some(Err(BadLine {
                    number: self.number,
                    error,
                })))
            };
            if too_long {
                return bad(format!("the line exceeds {} bytes", self.max_bytes));
            }
            // Some programs write a byte order mark.
            let line = line
                .strip_prefix(b"\xef\xbb\xbf")
                .filter(|_| self.number == 1)
                .unwrap_or(&line);
            let Ok(text) = std::str::from_utf8(line) else {
                return bad("the line is not UTF-8".to_owned());
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
    use redrive::limits::MAX_PAYLOAD_BYTES;

    use super::*;

    fn read(text: &[u8]) -> Vec<Result<(), BadLine>> {
        let mut lines = Lines::new(text, MAX_PAYLOAD_BYTES);
        std::iter::from_fn(|| lines.next_job("k").expect("memory can be read"))
            .map(|job| job.map(drop))
            .collect()
    }

    fn bad(number: u64, message: &str, found: &Result<(), BadLine>) {
        let line = found.as_ref().expect_err("a bad line");
        assert!(
            line.number == number && line.error.contains(message),
            "{line:?}"
        );
    }

    #[test]
    fn blank_lines_are_skipped_but_counted() {
        let found = read(b"\xef\xbb\xbf{\"a\":1}\r\n\n  \n[2]\nbroken\n7");
        assert_eq!(found.len(), 4);
        assert!(found[0].is_ok() && found[1].is_ok() && found[3].is_ok());
        bad(5, "not JSON", &found[2]);
    }

    #[test]
    fn a_bad_line_is_reported_with_its_number_and_error() {
        let mut text = b"\"\\u0000\"\n\"\xff\"\n".to_vec();
        text.extend(std::iter::repeat_n(b'1', 3 * MAX_PAYLOAD_BYTES));
        text.extend(b"\n1\n1 2\n");
        let found = read(&text);
        bad(1, "NUL", &found[0]);
        bad(2, "not UTF-8", &found[1]);
        bad(3, "exceeds", &found[2]);
        assert_eq!(found[3], Ok(()));
        bad(5, "not JSON", &found[4]);
    }

    #[test]
    fn a_payload_at_the_limit_is_accepted() {
        let text = format!("\"{}\"\n1", "x".repeat(MAX_PAYLOAD_BYTES - 2));
        assert_eq!(read(text.as_bytes()), [Ok(()), Ok(())]);
        let over = format!("\"{}\"\n1", "x".repeat(MAX_PAYLOAD_BYTES - 1));
        bad(1, "limit", &read(over.as_bytes())[0]);
    }
}
