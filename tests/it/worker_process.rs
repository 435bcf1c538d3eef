//! A worker in a separate process.

use std::process::{Child, Command, Stdio};

use redrive::Queue;
use redrive_tests::{SOON, TestDatabase, wait_until};

/// A worker process, killed with SIGKILL at the end of the test at the latest.
pub(crate) struct WorkerProcess(Child);

impl WorkerProcess {
    pub(crate) fn start(test: &TestDatabase, queue: &Queue) -> WorkerProcess {
        let child = Command::new(env!("CARGO_BIN_EXE_test_worker"))
            .args([test.url(), queue.name()])
            .stderr(Stdio::inherit())
            .spawn()
            .expect("start the test worker");
        WorkerProcess(child)
    }

    /// Kills the process with SIGKILL and waits for its end.
    pub(crate) fn kill(&mut self) {
        self.0.kill().expect("kill the test worker");
        self.0.wait().expect("wait for its end");
    }

    /// Waits until the process ends.
    pub(crate) fn wait_for_its_end(&mut self) {
        wait_until("the process to abort", SOON, || {
            self.0.try_wait().expect("ask for its end").is_some()
        });
    }
}

impl Drop for WorkerProcess {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}
