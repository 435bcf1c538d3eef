//! A worker in a separate process.

use std::process::Child;

use redrive_tests::prelude::*;
use rustix::process::{Pid, Signal, kill_process};

/// How the server lists the sessions of the process.
const APPLICATION: &str = "test_worker";

/// A worker process, killed with SIGKILL at the end of the test at the latest.
pub(crate) struct WorkerProcess {
    child: Child,
    client: Client,
}

impl WorkerProcess {
    pub(crate) fn start(test: &TestDatabase, queue: &Queue) -> WorkerProcess {
        WorkerProcess::start_with(test, queue, &[])
    }

    /// Starts it with more arguments.
    pub(crate) fn start_with(test: &TestDatabase, queue: &Queue, more: &[&str]) -> WorkerProcess {
        let separator = if test.url().contains('?') { '&' } else { '?' };
        let url = format!("{}{separator}application_name={APPLICATION}", test.url());
        let child = Command::new(env!("CARGO_BIN_EXE_test_worker"))
            .args([&url, queue.name()])
            .args(more)
            .stderr(Stdio::inherit())
            .spawn()
            .expect("start the test worker");
        WorkerProcess {
            child,
            client: test.client(),
        }
    }

    /// Kills the process with SIGKILL and waits for its end.
    pub(crate) fn kill(&mut self) {
        self.child.kill().expect("kill the test worker");
        self.wait_for_its_end();
    }

    /// Stops the process with SIGTERM and waits for its end.
    pub(crate) fn stop(&mut self) -> ExitStatus {
        self.signal(Signal::TERM);
        self.wait_for_its_end()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("signal the test worker");
    }

    /// Waits until it listens for signals, on a thread of its own.
    pub(crate) fn wait_until_it_listens(&self) {
        let tasks = format!("/proc/{}/task", self.child.id());
        wait_until("the process to listen for signals", SOON, || {
            let threads = fs::read_dir(&tasks).into_iter().flatten().flatten();
            let mut names =
                threads.filter_map(|it| fs::read_to_string(it.path().join("comm")).ok());
            names.any(|name| name.trim() == "redrive-signals")
        });
    }

    pub(crate) fn has_ended(&mut self) -> bool {
        let status = self.child.try_wait().expect("ask for its end");
        status.is_some()
    }

    /// Waits until the process ends, and until the server has completed the statements that it had
    /// received: one may be a claim.
    pub(crate) fn wait_for_its_end(&mut self) -> ExitStatus {
        wait_until("the process to end", SOON, || self.has_ended());
        let status = self.child.try_wait().expect("ask for its end");
        let sessions = "SELECT FROM pg_stat_activity \
            WHERE datname = current_database() AND application_name = $1";
        wait_until("its sessions to end", SOON, || {
            let left = self.client.query(sessions, &[&APPLICATION]);
            left.expect("ask for its sessions").is_empty()
        });
        status.expect("it ended")
    }
}

impl Drop for WorkerProcess {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
