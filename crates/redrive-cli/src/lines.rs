//! NDJSON: one payload or object a line, read with bounded memory; a bad line is named by its
//! number.

use std::io::{self, BufRead, Read as _};

use redrive::{NewJob, PAYLOAD_BYTES};

/// The payloads of a file, line by line. Blank lines are passed over, and counted.
#[derive(Debug)]
pub(crate) struct Lines<R> {
    reader: R,
    number: u64,
    bytes: u64,
    /// The most bytes of a line, without its line break.
    most: usize,
}

/// A line that cannot be a payload.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct BadLine {
    /// Its number, from 1.
    pub(crate) number: u64,
    /// What is wrong with it.
    pub(crate) why: String,
}

impl<R: BufRead> Lines<R> {
    /// Lines of payloads.
    pub(crate) fn new(reader: R) -> Lines<R> {
        Lines::of(reader, PAYLOAD_BYTES)
    }

    /// Lines of at most so many bytes.
    pub(crate) fn of(reader: R, most: usize) -> Lines<R> {
        Lines {
            reader,
            number: 0,
            bytes: 0,
            most,
        }
    }

    /// How many bytes have been read.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The next payload as a job of a kind, or why its line is bad; `None` at the end.
    pub(crate) fn next_job(&mut self, kind: &str) -> io::Result<Option<Result<NewJob, BadLine>>> {
        self.next_as(|text| {
            NewJob::raw(kind, text).map_err(|error| crate::error::Error::from(error).told())
        })
    }

    /// What the next line is read as, or why it is bad; `None` at the end.
    pub(crate) fn next_as<T>(
        &mut self,
        read_as: impl FnOnce(&str) -> Result<T, String>,
    ) -> io::Result<Option<Result<T, BadLine>>> {
        // A line of just the limit, and its line break.
        let limit = self.most as u64 + 2;
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
            let bad = |why: String| {
                Ok(Some(Err(BadLine {
                    number: self.number,
                    why,
                })))
            };
            if too_long {
                return bad(format!("the line is over the limit of {} bytes", self.most));
            }
            // Some programs put a byte order mark before the first line.
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
            return match read_as(text) {
                Ok(value) => Ok(Some(Ok(value))),
                Err(why) => bad(why),
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &[u8]) -> Vec<Result<(), BadLine>> {
        let mut lines = Lines::new(text);
        std::iter::from_fn(|| lines.next_job("k").expect("memory can be read"))
            .map(|job| job.map(drop))
            .collect()
    }

    fn bad(number: u64, why: &str, found: &Result<(), BadLine>) {
        let line = found.as_ref().expect_err("a bad line");
        assert!(line.number == number && line.why.contains(why), "{line:?}");
    }

    #[test]
    fn blank_lines_count_but_are_no_payloads() {
        let found = read(b"\xef\xbb\xbf{\"a\":1}\r\n\n  \n[2]\nbroken\n7");
        assert_eq!(found.len(), 4);
        assert!(found[0].is_ok() && found[1].is_ok() && found[3].is_ok());
        bad(5, "not JSON", &found[2]);
    }

    #[test]
    fn what_is_wrong_with_a_line_is_said() {
        let mut text = b"\"\\u0000\"\n\"\xff\"\n".to_vec();
        text.extend(std::iter::repeat_n(b'1', 3 * PAYLOAD_BYTES));
        text.extend(b"\n1\n1 2\n");
        let found = read(&text);
        bad(1, "NUL", &found[0]);
        bad(2, "not UTF-8", &found[1]);
        bad(3, "over the limit", &found[2]);
        assert_eq!(found[3], Ok(()));
        bad(5, "not JSON", &found[4]);
    }

    #[test]
    fn a_payload_of_just_the_limit_passes() {
        let text = format!("\"{}\"\n1", "x".repeat(PAYLOAD_BYTES - 2));
        assert_eq!(read(text.as_bytes()), [Ok(()), Ok(())]);
        let over = format!("\"{}\"\n1", "x".repeat(PAYLOAD_BYTES - 1));
        bad(1, "over the limit", &read(over.as_bytes())[0]);
    }
}
