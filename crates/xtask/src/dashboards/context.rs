//! The context of every scenario: the database, the command line and the workload.

use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use postgres::{Client, NoTls};
use redrive::{Database, Queue};

use super::workload::{self, Conditions, Workload};
use crate::cargo::Artifacts;
use crate::child::ChildGuard;
use crate::interrupt::Interrupt;

/// How long to wait for a state.
pub(super) const TIMEOUT: Duration = Duration::from_secs(90);

pub(super) struct Context<'a> {
    pub(super) url: &'a str,
    pub(super) programs: &'a Artifacts,
    pub(super) interrupt: &'a Interrupt,
    pub(super) pause: Duration,
    pub(super) db: Database,
    /// A superuser.
    pub(super) admin: Client,
    pub(super) workload: Workload,
}

impl Context<'_> {
    pub(super) fn queue(&self, name: &str) -> Result<Queue> {
        Queue::new(&self.db, name).with_context(|| format!("cannot open the queue `{name}`"))
    }

    /// Enqueues jobs whose handler shows a behavior.
    pub(super) fn enqueue(
        &self,
        queue: &str,
        kind: &str,
        behavior: &str,
        count: u64,
        attempts: u32,
    ) -> Result<()> {
        let jobs = (0..count)
            .map(|number| Ok(workload::job(kind, behavior, number)?.max_attempts(attempts)))
            .collect::<Result<Vec<_>>>()?;
        self.queue(queue)?
            .enqueue_jobs(&jobs)
            .map(drop)
            .with_context(|| format!("cannot enqueue jobs of `{kind}`"))
    }

    /// Changes a condition of the workload.
    pub(super) fn set(&self, flag: impl FnOnce(&Conditions) -> &AtomicBool, value: bool) {
        flag(&self.workload.conditions).store(value, Ordering::Relaxed);
    }

    pub(super) fn pause(&self) -> Result<()> {
        self.interrupt.pause(self.pause)
    }

    /// Returns the number of rows of a table that meet a condition.
    pub(super) fn count(&mut self, rows: &str) -> Result<i64> {
        self.admin
            .query_one(&format!("SELECT count(*) FROM {rows}"), &[])
            .map(|row| row.get(0))
            .with_context(|| format!("cannot count {rows}"))
    }

    /// Waits until there are at least as many such rows.
    pub(super) fn wait_for(&mut self, least: i64, rows: &str) -> Result<()> {
        self.wait_until(rows, |count| count >= least)
    }

    /// Waits until the number of such rows meets a condition.
    pub(super) fn wait_until(&mut self, rows: &str, is_met: impl Fn(i64) -> bool) -> Result<()> {
        let interrupt = self.interrupt.clone();
        interrupt
            .wait_for(TIMEOUT, || Ok(is_met(self.count(rows)?).then_some(())))?
            .with_context(|| format!("waited {TIMEOUT:?} for {rows}"))
    }

    /// Runs the command line to its end. Exit code 1 is fine: some letters were refused.
    pub(super) fn redrive(&self, arguments: &str) -> Result<()> {
        let mut command = Command::new(self.programs.executable("redrive")?);
        command
            .args(arguments.split(' '))
            .env("DATABASE_URL", self.url);
        let status = self.interrupt.run(command.stdout(Stdio::null()))?;
        ensure!(
            status.code() != Some(2),
            "`redrive {arguments}` failed; see above"
        );
        Ok(())
    }

    /// Starts a worker process with one slot and a short lease.
    pub(super) fn start_worker(&self, queue: &str, command: &str) -> Result<ChildGuard> {
        let options = ["--slots", "1", "--lease", "2s"];
        ChildGuard::start(
            Command::new(self.programs.executable("redrive")?)
                .args(["work", queue, "--exec", command])
                .args(options)
                .env("DATABASE_URL", self.url)
                .env("RUST_LOG", "off")
                .stdout(Stdio::null())
                .stderr(Stdio::null()),
        )
    }
}

pub(super) fn connect(url: &str) -> Result<Client> {
    Client::connect(url, NoTls).context("cannot connect to the database")
}

pub(super) fn run(client: &mut Client, statement: &str) -> Result<()> {
    client
        .batch_execute(statement)
        .with_context(|| format!("`{statement}` failed"))
}

/// Names the scenario that begins.
pub(super) fn say(scenario: &str) {
    println!("    {scenario}");
}

pub(super) fn operator() -> redrive::Operator {
    redrive::Operator::new("maria")
}
