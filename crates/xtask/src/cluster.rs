//! A temporary PostgreSQL cluster, created in seconds and removed when dropped.

use std::env;
use std::fmt::Write as _;
use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, ensure};
use postgres::{Client, NoTls};
use tempfile::TempDir;

use crate::account::Account;
use crate::interrupt::Interrupt;
use crate::postgres::Binaries;
use crate::prometheus::free_address;
use crate::scratch;

/// The superuser of the cluster. Connections from this machine need no password.
const SUPERUSER: &str = "postgres";
/// How long a start may take on a slow disk.
const START: Duration = Duration::from_mins(2);
/// Linux's limit for the path of a Unix socket, in bytes.
const MAX_SOCKET_PATH: usize = 107;
/// How many lines of the server's log an error shows.
const LOG_LINES: usize = 20;
/// How many ports to try. A free port may be taken a moment later.
const PORTS: usize = 3;

/// How the cluster is configured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Durability {
    /// Commits survive a power failure, as in production.
    Durable,
    /// As fast as possible. Commits still wait for their WAL to be written, so that other sessions
    /// see them when they would in production.
    Throwaway,
    /// Durable, with the memory and checkpoint settings of the published benchmarks.
    Measured,
}

/// A running server with its data in a temporary folder. Dropping it stops the server and removes
/// the folder.
#[derive(Debug)]
pub(crate) struct Cluster {
    binaries: Binaries,
    account: Option<Account>,
    /// `None` once the cluster is kept.
    folder: Option<TempDir>,
    port: u16,
}

impl Cluster {
    /// Creates a cluster and starts it on a free port of 127.0.0.1.
    pub(crate) fn start(
        binaries: &Binaries,
        durability: Durability,
        interrupt: &Interrupt,
    ) -> Result<Cluster> {
        let mut cluster = Cluster::create(binaries, durability)?;
        for _ in 1..PORTS {
            interrupt.check()?;
            if cluster.launch().is_ok() {
                return Ok(cluster);
            }
        }
        cluster.launch().map(|()| cluster)
    }

    fn create(binaries: &Binaries, durability: Durability) -> Result<Cluster> {
        let account = Account::for_servers()?;
        let place = match durability {
            Durability::Throwaway => scratch::folder(),
            Durability::Durable | Durability::Measured => env::temp_dir(),
        };
        let folder = tempfile::Builder::new()
            .prefix("redrive-")
            .tempdir_in(&place)
            .with_context(|| {
                format!(
                    "cannot create a folder for a cluster below {}; set TMPDIR to another one",
                    place.display()
                )
            })?;
        if let Some(account) = &account {
            account.own(folder.path())?;
        }
        let cluster = Cluster {
            binaries: binaries.clone(),
            account,
            folder: Some(folder),
            port: 0,
        };
        cluster.initialize(durability).map(|()| cluster)
    }

    /// Returns the URL of one of its databases, as superuser.
    pub(crate) fn url(&self, database: &str) -> String {
        format!("postgres://{SUPERUSER}@127.0.0.1:{}/{database}", self.port)
    }

    /// Returns its port on 127.0.0.1.
    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Creates an empty database and returns its URL.
    pub(crate) fn create_database(&self, name: &str) -> Result<String> {
        self.execute(&format!("CREATE DATABASE {name}"))?;
        Ok(self.url(name))
    }

    /// Drops a database and disconnects its sessions.
    pub(crate) fn drop_database(&self, name: &str) -> Result<()> {
        self.execute(&format!("DROP DATABASE {name} WITH (FORCE)"))
    }

    fn execute(&self, statement: &str) -> Result<()> {
        Client::connect(&self.url("postgres"), NoTls)
            .and_then(|mut client| client.batch_execute(statement))
            .with_context(|| format!("`{statement}` failed on the temporary cluster"))
    }

    /// Leaves the server running, and returns the command that stops and removes it.
    pub(crate) fn keep(mut self) -> String {
        let mut command = String::new();
        if let Some(folder) = self.folder.take() {
            // Writing to a String cannot fail.
            if let Some(account) = &self.account {
                _ = write!(command, "runuser -u {} -- ", account.name());
            }
            let folder = folder.keep();
            _ = write!(
                command,
                "{} -D {} -m fast stop && rm -r {}",
                quoted(&self.binaries.path("pg_ctl")),
                quoted(&folder.join("data")),
                quoted(&folder)
            );
        }
        command
    }

    fn initialize(&self, durability: Durability) -> Result<()> {
        let mut initdb = self.program("initdb");
        initdb
            .arg("--pgdata")
            .arg(self.data())
            .args(["--auth=trust", "--encoding=UTF8", "--locale=C"])
            .arg(format!("--username={SUPERUSER}"));
        if durability == Durability::Throwaway {
            initdb.arg("--no-sync");
        }
        run(&mut initdb).with_context(|| {
            let account = self.account.as_ref().map_or("you", Account::name);
            format!(
                "cannot initialize a cluster in {}; `{account}` must be able to write there, \
                 or set TMPDIR",
                self.folder().display(),
            )
        })?;
        let configuration = self.data().join("postgresql.conf");
        OpenOptions::new()
            .append(true)
            .open(&configuration)
            .and_then(|mut file| file.write_all(self.settings(durability).as_bytes()))
            .with_context(|| format!("cannot write {}", configuration.display()))
    }

    fn settings(&self, durability: Durability) -> String {
        let durability = match durability {
            Durability::Durable => "fsync = on\n",
            Durability::Throwaway => "fsync = off\nfull_page_writes = off\n",
            // Later lines win.
            Durability::Measured => "fsync = on\nshared_buffers = '1GB'\nmax_wal_size = '4GB'\n",
        };
        // The server cannot create its socket below a long path. TCP is enough then.
        let path = self.folder().display().to_string();
        let fits = path.len() + "/.s.PGSQL.65535".len() <= MAX_SOCKET_PATH;
        let socket_folder = if fits && !path.contains([',', '"', '\'']) {
            &path
        } else {
            ""
        };
        format!(
            "\n# Written by xtask.\n\
             listen_addresses = '127.0.0.1'\n\
             unix_socket_directories = '{socket_folder}'\n\
             max_connections = 400\n\
             max_prepared_transactions = 8\n\
             shared_buffers = '256MB'\n\
             synchronous_commit = on\n\
             {durability}"
        )
    }

    fn launch(&mut self) -> Result<()> {
        let address = free_address("127.0.0.1:0")?;
        let port = address.rsplit(':').next().unwrap_or_default();
        self.port = port
            .parse()
            .with_context(|| format!("no port in {address}"))?;
        let mut pg_ctl = self.program("pg_ctl");
        pg_ctl
            .args(["start", "--wait", "-s", "--pgdata"])
            .arg(self.data());
        pg_ctl.arg(format!("--timeout={}", START.as_secs()));
        pg_ctl
            .arg("--log")
            .arg(self.log())
            .args(["-o", &format!("-p {port}")]);
        run(&mut pg_ctl).map_err(|error| {
            let log = fs::read_to_string(self.log()).unwrap_or_default();
            anyhow!(
                "cannot start PostgreSQL {} on port {port}: {error}\nThe end of its log:\n{}",
                self.binaries.version(),
                tail(&log, LOG_LINES),
            )
        })
    }

    fn stop(&self) {
        for mode in ["fast", "immediate"] {
            let mut pg_ctl = self.program("pg_ctl");
            pg_ctl.args([
                "stop",
                "--wait",
                "--timeout=20",
                "-s",
                "-m",
                mode,
                "--pgdata",
            ]);
            let stopped = run(pg_ctl.arg(self.data())).is_ok();
            // The server removes this file last.
            if stopped || !self.data().join("postmaster.pid").exists() {
                return;
            }
        }
        eprintln!(
            "the server in {} could not be stopped",
            self.folder().display()
        );
    }

    /// A program of the server, run under the account of the cluster.
    fn program(&self, name: &str) -> Command {
        let mut command = self.binaries.program(name);
        if let Some(account) = &self.account {
            account.run(&mut command);
        }
        // The programs warn if they cannot enter the current folder.
        command.current_dir(self.folder());
        command
    }

    fn folder(&self) -> &Path {
        self.folder.as_ref().map_or(Path::new("/"), TempDir::path)
    }

    fn data(&self) -> PathBuf {
        self.folder().join("data")
    }

    /// Returns the path of the server's log.
    pub(crate) fn log(&self) -> PathBuf {
        self.folder().join("server.log")
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if self.data().join("postmaster.pid").exists() && self.folder.is_some() {
            self.stop();
        }
    }
}

/// Runs a program of the server to its end. A Ctrl-C does not reach it: an interrupted start would
/// leave a server behind.
fn run(command: &mut Command) -> Result<()> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command
        .process_group(0)
        .output()
        .with_context(|| format!("cannot start {name}"))?;
    let stderr = String::from_utf8_lossy(&output.stderr);
    let (status, end) = (output.status, tail(stderr.trim(), LOG_LINES));
    ensure!(status.success(), "{name}: {status}\n{end}");
    Ok(())
}

/// Returns the last lines of a text, indented.
fn tail(text: &str, lines: usize) -> String {
    let all: Vec<&str> = text.lines().collect();
    let from = all.len().saturating_sub(lines);
    all[from..]
        .iter()
        .map(|line| format!("    {line}"))
        .collect::<Vec<_>>()
        .join("\n")
}

/// Quotes a path for a shell.
fn quoted(path: &Path) -> String {
    let path = path.display().to_string();
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+".contains(c);
    if path.chars().all(plain) {
        path
    } else {
        format!("'{}'", path.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpStream;

    use super::*;

    fn binaries() -> (Binaries, Interrupt) {
        let interrupt = Interrupt::listen().expect("signals");
        let binaries = Binaries::find(&interrupt).expect("a PostgreSQL server is installed");
        (binaries, interrupt)
    }

    #[test]
    fn a_cluster_serves_and_leaves_nothing_behind() {
        let (binaries, interrupt) = binaries();
        let cluster =
            Cluster::start(&binaries, Durability::Throwaway, &interrupt).expect("it starts");
        let (folder, port) = (cluster.folder().to_owned(), cluster.port);
        let url = cluster.create_database("orders").expect("a database");
        assert_eq!(url, format!("postgres://postgres@127.0.0.1:{port}/orders"));
        cluster
            .create_database("orders")
            .expect_err("it exists already");
        TcpStream::connect(("127.0.0.1", port)).expect("it listens");

        drop(cluster);
        assert!(!folder.exists(), "{} still exists", folder.display());
        TcpStream::connect(("127.0.0.1", port)).expect_err("the server has stopped");
    }

    #[test]
    fn a_failing_start_shows_the_log() {
        let (binaries, _) = binaries();
        let mut cluster =
            Cluster::create(&binaries, Durability::Throwaway).expect("it initializes");
        let configuration = cluster.data().join("postgresql.conf");
        let text = fs::read_to_string(&configuration).expect("it exists") + "\nnonsense = 1\n";
        fs::write(&configuration, text).expect("it is written");
        let error = cluster
            .launch()
            .expect_err("an unknown setting")
            .to_string();
        assert!(
            error.contains("cannot start PostgreSQL") && error.contains("nonsense"),
            "{error}"
        );
    }

    #[test]
    fn paths_are_quoted_and_logs_are_cut() {
        assert_eq!(quoted(Path::new("/a/b-1.2")), "/a/b-1.2");
        assert_eq!(quoted(Path::new("/a b/c'd")), r"'/a b/c'\''d'");
        assert_eq!(tail("1\n2\n3", 2), "    2\n    3");
    }
}
