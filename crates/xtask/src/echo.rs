//! The output of a program, passed on line by line, and the part of it that an error repeats.
//!
//! A log of the gate is long, and whoever shows it may cut its middle. The list of failures at its
//! end must therefore say what went wrong.

use std::collections::VecDeque;
use std::io::{BufRead as _, BufReader, Read, Write};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

/// How many lines are kept that show an error or follow one, and how many last lines.
const ERRORS: usize = 30;
const LAST: usize = 10;
/// What a line with an error contains.
const SIGNS: [&str; 3] = ["error", "FAILED", "panicked at"];

/// The lines of a program that an error repeats.
#[derive(Debug, Default)]
pub(crate) struct Telling {
    errors: Vec<String>,
    last: VecDeque<String>,
    /// Whether the line before has a sign of an error.
    continues: bool,
}

impl Telling {
    fn add(&mut self, line: &str) {
        let is_error = SIGNS.iter().any(|sign| line.contains(sign));
        if (is_error || self.continues) && self.errors.len() < ERRORS {
            self.errors.push(line.to_owned());
        }
        self.continues = is_error;
        self.last.push_back(line.to_owned());
        if self.last.len() > LAST {
            self.last.pop_front();
        }
    }

    /// Returns the lines with errors, then the last lines, each after a line break and indented.
    pub(crate) fn text(&self) -> String {
        let last = self.last.iter().filter(|line| !self.errors.contains(line));
        let lines = self.errors.iter().chain(last);
        lines.flat_map(|line| ["\n        ", line]).collect()
    }
}

/// Passes the lines of a stream on to another and remembers the telling ones.
pub(crate) fn pass_on(
    from: impl Read + Send + 'static,
    mut to: impl Write + Send + 'static,
    telling: &Arc<Mutex<Telling>>,
) -> JoinHandle<()> {
    let telling = Arc::clone(telling);
    thread::spawn(move || {
        let mut from = BufReader::new(from);
        let mut line = Vec::new();
        // A stream that cannot be read has ended.
        while from
            .read_until(b'\n', &mut line)
            .is_ok_and(|count| count > 0)
        {
            // Nobody may be left to read it; the program goes on.
            _ = to.write_all(&line).and_then(|()| to.flush());
            let text = String::from_utf8_lossy(&line);
            telling
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .add(text.trim_end());
            line.clear();
        }
    })
}
