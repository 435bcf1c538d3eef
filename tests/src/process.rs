//! Processes of a test.

use std::process::{Child, Command, ExitStatus, Output, Stdio};

use crate::ran::Ran;
use crate::wait::{SOON, wait_until};

/// A process whose output is kept, killed with SIGKILL at the end of the test at the latest.
#[derive(Debug)]
pub struct Process(Option<Child>);

impl Process {
    /// Starts a command.
    pub fn start(command: &mut Command) -> Process {
        let command = command.stdout(Stdio::piped()).stderr(Stdio::piped());
        Process(Some(command.spawn().expect("start a process")))
    }

    /// Starts a command whose output is that of the test.
    pub fn start_aloud(command: &mut Command) -> Process {
        Process(Some(command.spawn().expect("start a process")))
    }

    /// Its id.
    pub fn id(&self) -> u32 {
        self.0.as_ref().expect("a process").id()
    }

    /// Sends a signal, as `INT`. Linux gives it to the main thread, which handles it before it returns from a wait: a
    /// statement that waits for the test does not return before the command knows of the signal.
    pub fn signal(&self, name: &str) {
        let sent = Command::new("kill")
            .args([&format!("-{name}"), &self.id().to_string()])
            .status();
        assert!(sent.expect("send a signal").success());
    }

    /// The running process.
    pub(crate) fn child(&mut self) -> &mut Child {
        self.0.as_mut().expect("a process")
    }

    /// Kills it and waits for its end.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.0.take() {
            // It may have ended already.
            _ = child.kill();
            child.wait().expect("wait for its end");
        }
    }

    /// Returns how it ended, if it did.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child().try_wait().expect("ask for its end")
    }

    /// Waits for its end.
    #[track_caller]
    pub fn ends(&mut self) -> ExitStatus {
        let mut status = None;
        wait_until("the process to end", SOON, || {
            status = self.ended();
            status.is_some()
        });
        status.expect("it ended")
    }

    /// Waits for its end and returns its output.
    pub fn output(mut self) -> Output {
        let child = self.0.take().expect("a process");
        child.wait_with_output().expect("wait for its end")
    }

    /// Waits for its end, which must be an exit with this code, and returns what it printed.
    #[track_caller]
    pub fn exits_with(self, code: u8) -> Ran {
        let output = self.output();
        let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
        let (out, err) = (text(output.stdout), text(output.stderr));
        let exit = output.status.code();
        assert_eq!(exit, Some(code.into()), "stdout: {out}\nstderr: {err}");
        let code = code.into();
        Ran { code, out, err }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}
