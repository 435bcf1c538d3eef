//! A temporary PostgreSQL cluster, created in seconds and removed when dropped.

use std::env;
use std::fs;
use std::path::PathBuf;

use anyhow::{Context as _, Result, anyhow};
use postgres::{Client, NoTls};
use redrive_servers::Server;

use crate::interrupt::Interrupt;
use crate::postgres::Binaries;
use crate::scratch;

/// How many lines of the server's log an error shows.
const LOG_LINES: usize = 20;
/// How often to try. A free port may be taken a moment later.
const TRIES: usize = 3;
const SETTINGS: &str =
    "max_connections = 400\nmax_prepared_transactions = 8\nshared_buffers = '256MB'\n";

/// How the cluster is configured.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Durability {
    /// Commits survive a power failure, as in production.
    Durable,
    /// As fast as possible. Commits still wait for their WAL to be written, so that other sessions
    /// see them when they would in production.
    Throwaway,
    /// Durable, with the memory and checkpoint settings of the published benchmarks.
    Measured,
}

impl Durability {
    fn settings(self) -> &'static str {
        match self {
            Durability::Durable => "",
            Durability::Throwaway => "fsync = off\nfull_page_writes = off\n",
            Durability::Measured => "shared_buffers = '1GB'\nmax_wal_size = '4GB'\n",
        }
    }
}

/// A running server with its data in a temporary folder. Dropping it stops the server and removes
/// the folder.
#[derive(Debug)]
pub(crate) struct Cluster(Server);

impl Cluster {
    /// Creates a cluster and starts it on a free port of 127.0.0.1.
    pub(crate) fn start(
        binaries: &Binaries,
        durability: Durability,
        interrupt: &Interrupt,
    ) -> Result<Cluster> {
        let place = match durability {
            Durability::Throwaway => scratch::folder(),
            Durability::Durable | Durability::Measured => env::temp_dir(),
        };
        let settings = format!("{SETTINGS}{}", durability.settings());
        let start = || {
            let server = Server::below(&place, binaries.folder());
            server.initialize(&settings)?;
            server.try_start().map_err(|error| {
                let log = fs::read_to_string(server.log()).unwrap_or_default();
                format!("{error}\nThe end of its log:\n{}", tail(&log, LOG_LINES))
            })?;
            Ok::<_, String>(server)
        };
        let mut started = start();
        for _ in 1..TRIES {
            interrupt.check()?;
            started = started.or_else(|_| start());
        }
        let started = started.map_err(|error| {
            anyhow!(
                "cannot start PostgreSQL {} below {}; set TMPDIR for another folder: {error}",
                binaries.version(),
                place.display()
            )
        });
        Ok(Cluster(started?))
    }

    /// Returns the URL of one of its databases, as superuser. Connections from this machine need no password.
    pub(crate) fn url(&self, database: &str) -> String {
        self.0.url_of(database)
    }

    /// Returns its port on 127.0.0.1.
    pub(crate) fn port(&self) -> u16 {
        self.0.port()
    }

    /// Creates an empty database and returns its URL.
    pub(crate) fn create_database(&self, name: &str) -> Result<String> {
        self.execute(&format!("CREATE DATABASE {name}"))?;
        Ok(self.url(name))
    }

    /// Drops a database, if there is one, and disconnects its sessions.
    pub(crate) fn drop_database(&self, name: &str) -> Result<()> {
        self.execute(&format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)"))
    }

    /// Runs a statement as superuser.
    pub(crate) fn execute(&self, statement: &str) -> Result<()> {
        Client::connect(&self.url("postgres"), NoTls)
            .and_then(|mut client| client.batch_execute(statement))
            .with_context(|| format!("`{statement}` failed on the temporary cluster"))
    }

    /// Returns the path of the server's log.
    pub(crate) fn log(&self) -> PathBuf {
        self.0.log()
    }
}

/// Returns the last lines of a text, indented.
pub(crate) fn tail(text: &str, lines: usize) -> String {
    let all: Vec<&str> = text.lines().collect();
    let from = all.len().saturating_sub(lines);
    all[from..]
        .iter()
        .map(|line| format!("    {line}"))
        .collect::<Vec<_>>()
        .join("\n")
}
