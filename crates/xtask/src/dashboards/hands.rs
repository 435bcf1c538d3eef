//! What the scenes are played with: the database, the command line, the shop.

use std::process::{Command, Stdio};
use std::time::Duration;

use postgres::{Client, NoTls};
use redrive::{Database, Queue};

use super::shop::{self, Shop};
use super::stage::Programs;
use crate::error::{During, Error, Result};
use crate::interrupt::{Interrupt, Running};

/// How long anything may take until it happens.
pub(super) const PATIENCE: Duration = Duration::from_secs(90);

/// What every scene has at hand.
pub(super) struct Scenes<'a> {
    pub(super) url: &'a str,
    pub(super) programs: &'a Programs,
    pub(super) interrupt: &'a Interrupt,
    pub(super) breath: Duration,
    pub(super) db: Database,
    /// A superuser.
    pub(super) admin: Client,
    pub(super) shop: Shop,
}

impl Scenes<'_> {
    pub(super) fn world(&self, change: impl FnOnce(&shop::World)) {
        change(&self.shop.world);
    }

    pub(super) fn queue(&self, name: &str) -> Result<Queue> {
        Queue::new(&self.db, name).during(|| format!("cannot open the queue `{name}`"))
    }

    pub(super) fn enqueue(
        &self,
        queue: &str,
        kind: &str,
        act: &str,
        count: u64,
        attempts: u32,
    ) -> Result<()> {
        let jobs = (0..count)
            .map(|number| Ok(shop::job(kind, act, number)?.max_attempts(attempts)))
            .collect::<Result<Vec<_>>>()?;
        self.queue(queue)?
            .add_many(jobs)
            .map(drop)
            .during(|| format!("cannot enqueue jobs of `{kind}`"))
    }

    /// Lets the world go on for a while.
    pub(super) fn breathe(&self) -> Result<()> {
        self.interrupt
            .wait_for::<()>(self.breath, || Ok(None))
            .map(drop)
    }

    pub(super) fn holds(&mut self, question: &str) -> Result<bool> {
        self.admin
            .query_one(question, &[])
            .map(|row| row.get(0))
            .during(|| format!("cannot ask `{question}`"))
    }

    pub(super) fn wait_for(&mut self, what: &str, question: &str) -> Result<()> {
        let interrupt = self.interrupt.clone();
        interrupt
            .wait_for(PATIENCE, || Ok(self.holds(question)?.then_some(())))?
            .ok_or_else(|| Error::new(format!("waited in vain for {what}")))
    }

    /// Runs the command line to its end.
    pub(super) fn redrive(&self, arguments: &[&str]) -> Result<()> {
        let mut command = Command::new(&self.programs.redrive);
        command.args(arguments).env("DATABASE_URL", self.url);
        let ended = self.interrupt.output(&mut command, PATIENCE)?;
        match ended {
            Some(output) if output.status.code() != Some(2) => Ok(()),
            Some(output) => Err(Error::new(format!(
                "`redrive {}` failed: {}",
                arguments.join(" "),
                String::from_utf8_lossy(&output.stderr).trim()
            ))),
            None => Err(Error::new(format!(
                "`redrive {}` did not end",
                arguments.join(" ")
            ))),
        }
    }

    /// A worker in a process of its own, with a short lease.
    pub(super) fn start_worker(&self, queue: &str, command: &str) -> Result<Running> {
        Running::start(
            Command::new(&self.programs.redrive)
                .args([
                    "work", queue, "--exec", command, "--slots", "1", "--lease", "2s",
                ])
                .env("DATABASE_URL", self.url)
                .env("RUST_LOG", "off")
                .stdout(Stdio::null())
                .stderr(Stdio::null()),
        )
    }
}

pub(super) fn connect(url: &str) -> Result<Client> {
    Client::connect(url, NoTls).during(|| "cannot connect to the database of the shop")
}

pub(super) fn run(client: &mut Client, statement: &str) -> Result<()> {
    client
        .batch_execute(statement)
        .during(|| format!("cannot run `{statement}`"))
}
