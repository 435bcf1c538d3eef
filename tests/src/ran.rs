//! The command line, driven in this process.

use std::ffi::OsString;
use std::process::ExitCode;

use redrive_cli::Program;
use serde_json::Value;

use crate::database::TestDatabase;

/// What a command did.
#[derive(Debug)]
pub struct Ran {
    /// What it exited with.
    pub code: ExitCode,
    /// Its stdout.
    pub out: String,
    /// Its stderr.
    pub err: String,
}

impl Ran {
    /// Fails unless it exited with this code.
    #[track_caller]
    #[allow(
        clippy::return_self_not_must_use,
        reason = "an exit code is all that some tests look at"
    )]
    pub fn exits_with(self, code: u8) -> Ran {
        assert_eq!(
            self.code,
            ExitCode::from(code),
            "stdout: {}\nstderr: {}",
            self.out,
            self.err
        );
        self
    }

    /// The lines of its stdout, as JSON.
    #[track_caller]
    pub fn lines(&self) -> Vec<Value> {
        self.out
            .lines()
            .map(|line| serde_json::from_str(line).expect("a JSON object a line"))
            .collect()
    }
}

/// Runs `redrive`.
pub fn ran(db: &TestDatabase, arguments: &[&str]) -> Ran {
    ran_by(&Program::new("redrive"), db, arguments)
}

/// Runs a program with verbs of its own.
pub fn ran_by(program: &Program, db: &TestDatabase, arguments: &[&str]) -> Ran {
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let first = ["program", "--database-url", db.url(), "--no-wait"];
    let arguments = first.iter().chain(arguments).map(OsString::from);
    let code = program.run(arguments, &mut out, &mut err);
    let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
    Ran {
        code,
        out: text(out),
        err: text(err),
    }
}
