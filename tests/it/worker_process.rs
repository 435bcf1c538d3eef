//! Programs in separate processes.

use redrive_tests::prelude::*;

/// How the server lists the sessions of the process.
const APPLICATION: &str = "test_worker";

/// What the process writes to.
const TABLES: &str = "CREATE TABLE IF NOT EXISTS public.begun (job bigint); \
                      CREATE TABLE IF NOT EXISTS public.finished (job bigint)";

/// Returns `redrive` as a program, which names its statements like any other client.
pub(crate) fn program(url: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_test_cli"));
    command
        .env("DATABASE_URL", url)
        .env_remove("REDRIVE_POOLER");
    command.env_remove("RUST_LOG").arg("--no-wait");
    command
}

/// A worker process, killed with SIGKILL at the end of the test at the latest.
pub(crate) struct WorkerProcess {
    process: Process,
    client: Client,
}

impl WorkerProcess {
    pub(crate) fn start(test: &TestDatabase, queue: &Queue) -> WorkerProcess {
        WorkerProcess::start_with(test, queue, &[])
    }

    /// Starts it with more arguments.
    pub(crate) fn start_with(test: &TestDatabase, queue: &Queue, more: &[&str]) -> WorkerProcess {
        test.sql(TABLES);
        let separator = if test.url().contains('?') { '&' } else { '?' };
        let url = format!("{}{separator}application_name={APPLICATION}", test.url());
        let mut command = Command::new(env!("CARGO_BIN_EXE_test_worker"));
        let command = command.args([&url, queue.name()]).args(more);
        WorkerProcess {
            process: Process::start_aloud(command),
            client: test.client(),
        }
    }

    /// Stops the process with SIGTERM and waits for its end.
    pub(crate) fn stop(&mut self) -> ExitStatus {
        self.process.signal("TERM");
        self.wait_for_its_end()
    }

    /// Sends two signals, the second one until it ends. Returns how it ended.
    pub(crate) fn ends_of(&mut self, first: &str, second: &str) -> ExitStatus {
        self.process.signal(first);
        wait_until("the process to end", SOON, || {
            self.process.signal(second);
            self.process.ended().is_some()
        });
        self.wait_for_its_end()
    }

    /// Waits until it listens for signals, on a thread of its own.
    pub(crate) fn wait_until_it_listens(&self) {
        let tasks = format!("/proc/{}/task", self.process.id());
        wait_until("the process to listen for signals", SOON, || {
            let threads = fs::read_dir(&tasks).into_iter().flatten().flatten();
            let mut names =
                threads.filter_map(|it| fs::read_to_string(it.path().join("comm")).ok());
            names.any(|name| name.trim() == "redrive-signals")
        });
    }

    /// Waits until the process ends, and until the server has completed the statements that it had
    /// received: one may be a claim.
    pub(crate) fn wait_for_its_end(&mut self) -> ExitStatus {
        let status = self.process.ends();
        let sessions = "SELECT FROM pg_stat_activity \
            WHERE datname = current_database() AND application_name = $1";
        wait_until("its sessions to end", SOON, || {
            let left = self.client.query(sessions, &[&APPLICATION]);
            left.expect("ask for its sessions").is_empty()
        });
        status
    }
}
