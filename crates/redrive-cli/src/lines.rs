//! NDJSON: one payload a line, read with bounded memory; a bad line is named by its number.

use std::io::{self, BufRead, Read as _};

use redrive::{NewJob, PAYLOAD_BYTES};

/// The longest line that is read: a payload, and the line break.
const LINE_BYTES: u64 = PAYLOAD_BYTES as u64 + 2;

/// The payloads of a file, line by line. Blank lines are passed over, and counted.
#[derive(Debug)]
pub(crate) struct Lines<R> {
    reader: R,
    number: u64,
    bytes: u64,
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
    pub(crate) fn new(reader: R) -> Lines<R> {
        Lines {
            reader,
            number: 0,
            bytes: 0,
        }
    }

    /// How many bytes have been read.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The next payload as a job of a kind, or why its line is bad; `None` at the end.
    pub(crate) fn next_job(&mut self, kind: &str) -> io::Result<Option<Result<NewJob, BadLine>>> {
        loop {
            let mut line = Vec::new();
            let read = self
                .reader
                .by_ref()
                .take(LINE_BYTES)
                .read_until(b'\n', &mut line)?;
            if read == 0 {
                return Ok(None);
            }
            self.number += 1;
            self.bytes += read as u64;
            let mut too_long = false;
            if read as u64 == LINE_BYTES && line.last() != Some(&b'\n') {
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
                return bad(format!(
                    "the line is over the limit of {PAYLOAD_BYTES} bytes"
                ));
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
            return match NewJob::raw(kind, text) {
                Ok(job) => Ok(Some(Ok(job))),
                Err(error) => bad(crate::error::Error::from(error).told()),
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
