//! The command line, driven in this process.

use std::ffi::OsString;
use std::iter;
use std::process::ExitCode;

use redrive::JobId;
use redrive_cli::Program;
use serde_json::Value;

use crate::database::TestDatabase;
use crate::texts::{has, holds, lacks};

/// The result of a command.
#[derive(Debug)]
pub struct Ran {
    /// The exit code.
    pub code: ExitCode,
    /// The output.
    pub out: String,
    /// The errors.
    pub err: String,
}

impl Ran {
    /// Fails unless it exited with this code.
    #[track_caller]
    #[allow(
        clippy::return_self_not_must_use,
        reason = "some tests check only the exit code"
    )]
    pub fn exits_with(self, code: u8) -> Ran {
        let (expected, Ran { out, err, .. }) = (ExitCode::from(code), &self);
        assert_eq!(self.code, expected, "stdout: {out}\nstderr: {err}");
        self
    }

    /// Fails unless the output contains this text.
    #[track_caller]
    pub fn shows(&self, part: impl AsRef<str>) -> &Ran {
        has(&self.out, part.as_ref());
        self
    }

    /// Fails unless the output begins with this text.
    #[track_caller]
    pub fn begins(&self, start: &str) -> &Ran {
        assert!(self.out.starts_with(start), "{}", self.out);
        self
    }

    /// Fails if the output contains this text.
    #[track_caller]
    pub fn hides(&self, part: impl AsRef<str>) -> &Ran {
        lacks(&self.out, part.as_ref());
        self
    }

    /// Fails unless the errors contain this text.
    #[track_caller]
    pub fn tells(&self, part: impl AsRef<str>) -> &Ran {
        has(&self.err, part.as_ref());
        self
    }

    /// Fails unless this is the whole output.
    #[track_caller]
    pub fn prints(&self, whole: impl AsRef<str>) -> &Ran {
        assert_eq!(self.out, whole.as_ref(), "{}", self.err);
        self
    }

    /// Fails if there are errors or warnings.
    #[track_caller]
    pub fn warns_not(&self) -> &Ran {
        assert_eq!(self.err, "", "{}", self.out);
        self
    }

    /// Fails unless the first line of the output is an object with these members.
    #[track_caller]
    pub fn holds(&self, members: &Value) -> &Ran {
        holds(&self.json(), members);
        self
    }

    /// Returns the first line of the output as JSON.
    #[track_caller]
    pub fn json(&self) -> Value {
        self.lines().swap_remove(0)
    }

    /// Returns the lines of the output as JSON.
    #[track_caller]
    pub fn lines(&self) -> Vec<Value> {
        let read = |line| serde_json::from_str(line).expect("a JSON object a line");
        self.out.lines().map(read).collect()
    }
}

impl TestDatabase {
    /// Runs a command line of `redrive`, which must succeed.
    #[track_caller]
    pub fn run(&self, line: impl AsRef<str>) -> Ran {
        self.fails(0, line)
    }

    /// Runs a command line of `redrive`, which must exit with this code.
    #[track_caller]
    pub fn fails(&self, code: u8, line: impl AsRef<str>) -> Ran {
        ran(self, &words(line.as_ref())).exits_with(code)
    }
}

/// Returns the bytes that `redrive dlq show --raw` prints.
#[track_caller]
pub fn shown_raw(test: &TestDatabase, letter: JobId) -> Vec<u8> {
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let url = test.url();
    let line = format!("redrive --database-url {url} dlq show {letter} --raw");
    let words = line.split(' ').map(OsString::from);
    let code = Program::new("redrive").run(words, &mut out, &mut err);
    assert_eq!(code, ExitCode::SUCCESS, "{}", String::from_utf8_lossy(&err));
    out
}

/// Splits a command at blanks, with single quotes, as a shell does.
pub fn words(command: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut quoted = false;
    for c in command.chars() {
        match c {
            '\'' => quoted = !quoted,
            ' ' if !quoted => words.push(String::new()),
            c => words.last_mut().expect("a word").push(c),
        }
    }
    assert!(!quoted, "an open quote in `{command}`");
    words
}

/// Runs `redrive` on a database.
pub fn ran(db: &TestDatabase, arguments: &[impl AsRef<str>]) -> Ran {
    ran_by(&Program::new("redrive"), db, arguments)
}

/// Runs `redrive` on the database of a URL.
pub fn ran_at(url: &str, arguments: &[impl AsRef<str>]) -> Ran {
    run(&Program::new("redrive"), &on(url, arguments))
}

/// Runs a program with its handlers.
pub fn ran_by(program: &Program, db: &TestDatabase, arguments: &[impl AsRef<str>]) -> Ran {
    run(program, &on(db.url(), arguments))
}

/// Runs `redrive` with these arguments and no others.
pub fn ran_alone(arguments: &[impl AsRef<str>]) -> Ran {
    run(&Program::new("redrive"), arguments)
}

fn on<'a>(url: &'a str, arguments: &'a [impl AsRef<str>]) -> Vec<&'a str> {
    let globals = ["--database-url", url, "--no-wait"].into_iter();
    globals.chain(arguments.iter().map(AsRef::as_ref)).collect()
}

fn run(program: &Program, arguments: &[impl AsRef<str>]) -> Ran {
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let arguments = arguments.iter().map(AsRef::as_ref);
    let words = iter::once("program").chain(arguments).map(OsString::from);
    let code = program.run(words, &mut out, &mut err);
    for printed in [&out, &err] {
        let ends_a_line = printed.last().is_none_or(|byte| *byte == b'\n');
        assert!(ends_a_line, "output must end with a newline");
    }
    let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
    Ran {
        code,
        out: text(out),
        err: text(err),
    }
}
