//! The integration tests, their server, and the templates of their databases.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result};
use postgres::{Client, NoTls};

use crate::cargo::{Artifacts, cargo, workspace};
use crate::cluster::{Cluster, Durability};
use crate::interrupt::Interrupt;
use crate::postgres::Binaries;
use crate::programs::for_tests;

/// The target of the integration tests.
const TARGET: &str = "it";
/// The tests of the sources, which need no server.
const WITHOUT_SERVER: &str = "tidy::";
/// How long listing the tests may take.
const LIST: Duration = Duration::from_mins(1);
/// How much of a message is kept, in characters.
const MESSAGE: usize = 160;
/// A migrated database.
pub(super) const MIGRATED: &str = "redrive_mutants_migrated";

/// The built tests and a running server.
#[derive(Debug)]
pub(super) struct Integration<'a> {
    pub(super) root: PathBuf,
    pub(super) program: PathBuf,
    pub(super) cluster: Cluster,
    interrupt: &'a Interrupt,
    /// Where the tests find their programs, by variable.
    programs: [(&'static str, PathBuf); 3],
}

impl<'a> Integration<'a> {
    /// Builds the tests, and starts a server with a migrated database.
    pub(super) fn start(interrupt: &'a Interrupt) -> Result<Integration<'a>> {
        let mut build = cargo(["test", "--no-run", "--test", TARGET]);
        let program = Artifacts::of(&mut build, interrupt)?.executable(TARGET)?;
        let binaries = Binaries::find(interrupt)?;
        let integration = Integration {
            root: workspace()?,
            program,
            cluster: Cluster::start(&binaries, Durability::Throwaway, interrupt)?,
            interrupt,
            programs: for_tests(interrupt)?,
        };
        let url = integration.cluster.create_database(MIGRATED)?;
        redrive::connect(&url)
            .and_then(|db| db.migrate())
            .context("cannot migrate a database for the mutants")?;
        Ok(integration)
    }

    pub(super) fn port(&self) -> u16 {
        self.cluster.port()
    }

    /// Connects to a database of the server.
    pub(super) fn client(&self, database: &str) -> Result<Client> {
        Client::connect(&self.cluster.url(database), NoTls)
            .with_context(|| format!("cannot connect to the database `{database}`"))
    }

    /// Replaces a database with a copy of another one.
    pub(super) fn copy(&self, from: &str, to: &str) -> Result<()> {
        self.cluster.drop_database(to)?;
        let copy = format!("CREATE DATABASE {to} TEMPLATE {from}");
        self.cluster.execute(&copy)
    }

    /// Returns the names of the schema's functions.
    pub(super) fn functions(&self) -> Result<Vec<String>> {
        let asked =
            "SELECT proname::text FROM pg_proc WHERE pronamespace = 'redrive'::regnamespace";
        let rows = self.client(MIGRATED)?.query(asked, &[])?;
        Ok(rows.iter().map(|row| row.get(0)).collect())
    }

    /// Returns the names of the tests that use the server.
    pub(super) fn tests(&self) -> Result<Vec<String>> {
        let mut list = Command::new(&self.program);
        let list = self
            .interrupt
            .stdout(list.args(["--list", "--format=terse"]), LIST)?;
        let names = list.lines().filter_map(|line| line.strip_suffix(": test"));
        let names = names.filter(|name| !name.starts_with(WITHOUT_SERVER));
        Ok(names.map(str::to_owned).collect())
    }

    /// Runs one test through a proxy, on copies of a template. Returns why it failed, or `None` if it passed.
    pub(super) fn run(
        &self,
        test: &str,
        proxy: u16,
        template: &str,
        limit: Duration,
    ) -> Result<Option<String>> {
        let url = format!("postgres://postgres@127.0.0.1:{proxy}/postgres");
        let mut command = Command::new(&self.program);
        command
            .args([test, "--exact"])
            .current_dir(self.root.join("tests"))
            .env("REDRIVE_TEST_DATABASE_URL", url)
            .env("REDRIVE_TEST_TEMPLATE", template)
            .envs(self.programs.iter().cloned());
        let ended = self.interrupt.ended(command.stderr(Stdio::null()), limit)?;
        Ok(match ended {
            None => Some(format!("no end within {limit:?}")),
            Some((status, _)) if status.success() => None,
            Some((_, output)) => Some(message(&output)),
        })
    }
}

/// Returns the first message of a panic in the output of a test.
fn message(output: &str) -> String {
    let mut lines = output.lines();
    lines.by_ref().find(|line| line.contains("panicked at"));
    let message = lines.next().unwrap_or("no message").trim();
    message.chars().take(MESSAGE).collect()
}
