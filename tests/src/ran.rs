//! The command line, driven in this process.

use std::ffi::OsString;
use std::process::ExitCode;

use redrive_cli::Program;
use serde_json::Value;

use crate::database::TestDatabase;

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
        assert_eq!(
            self.code,
            ExitCode::from(code),
            "stdout: {}\nstderr: {}",
            self.out,
            self.err
        );
        self
    }

    /// Returns the lines of the output as JSON.
    #[track_caller]
    pub fn lines(&self) -> Vec<Value> {
        self.out
            .lines()
            .map(|line| serde_json::from_str(line).expect("a JSON object a line"))
            .collect()
    }
}

/// Runs `redrive` on a database.
pub fn ran(db: &TestDatabase, arguments: &[&str]) -> Ran {
    ran_by(&Program::new("redrive"), db, arguments)
}

/// Runs `redrive` on the database of a URL.
pub fn ran_at(url: &str, arguments: &[&str]) -> Ran {
    run(&Program::new("redrive"), &on(url, arguments))
}

/// Runs a program with its handlers.
pub fn ran_by(program: &Program, db: &TestDatabase, arguments: &[&str]) -> Ran {
    run(program, &on(db.url(), arguments))
}

/// Runs `redrive` with these arguments and no others.
pub fn ran_alone(arguments: &[&str]) -> Ran {
    run(&Program::new("redrive"), arguments)
}

fn on<'a>(url: &'a str, arguments: &[&'a str]) -> Vec<&'a str> {
    [&["--database-url", url, "--no-wait"], arguments].concat()
}

fn run(program: &Program, arguments: &[&str]) -> Ran {
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let arguments = ["program"].iter().chain(arguments).map(OsString::from);
    let code = program.run(arguments, &mut out, &mut err);
    for printed in [&out, &err] {
        assert!(
            printed.last().is_none_or(|byte| *byte == b'\n'),
            "output must end with a newline"
        );
    }
    let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
    Ran {
        code,
        out: text(out),
        err: text(err),
    }
}
