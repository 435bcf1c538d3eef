//! A child process that talks by lines. It ends when its standard input does.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use crate::Outcome;

/// A running child process. Dropping it waits for its end.
#[derive(Debug)]
pub struct Process {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
}

impl Process {
    /// Starts a program.
    pub fn start(command: &mut Command) -> Outcome<Process> {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let stdout = child.stdout.take().ok_or("no standard output")?;
        Ok(Process {
            stdin: child.stdin.take(),
            stdout: BufReader::new(stdout),
            child,
        })
    }

    /// Returns its number.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Writes a line to it.
    pub fn tell(&mut self, line: &str) -> Outcome {
        let mut stdin = self.stdin.as_ref().ok_or("no standard input")?;
        Ok(writeln!(stdin, "{line}")?)
    }

    /// Reads a line from it.
    pub fn line(&mut self) -> Outcome<String> {
        let mut line = String::new();
        match self.stdout.read_line(&mut line)? {
            0 => Err("a process ended early".into()),
            _ => Ok(line.trim().to_owned()),
        }
    }

    /// Ends it, and returns the lines that it still writes.
    pub fn end(mut self) -> Outcome<Vec<String>> {
        drop(self.stdin.take());
        let lines = self
            .stdout
            .by_ref()
            .lines()
            .collect::<Result<Vec<_>, _>>()?;
        let status = self.child.wait()?;
        match status.success() {
            true => Ok(lines),
            false => Err(format!("a process ended with {status}").into()),
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        drop(self.stdin.take());
        // It has ended already if `end` was called.
        _ = self.child.wait();
    }
}
