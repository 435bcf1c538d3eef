//! A throw-away PostgreSQL cluster: made in seconds, gone without a trace.

use std::fmt::Write as _;
use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use postgres::{Client, NoTls};
use tempfile::TempDir;

use crate::account::Account;
use crate::error::{During, Error, Result};
use crate::interrupt::Interrupt;
use crate::postgres::Binaries;

/// The superuser of the cluster. Connections from this machine need no password.
const SUPERUSER: &str = "postgres";
/// How long `initdb`, a start or a stop may take on a slow disk.
const PATIENCE: Duration = Duration::from_mins(2);
/// The longest path of a Unix socket, in bytes, that Linux takes.
const SOCKET_PATH: usize = 107;
/// How many lines of the server's log an error shows.
const LOG_LINES: usize = 20;
/// How many ports are tried: one that was free may be taken a moment later.
const PORTS: usize = 3;

/// What the cluster promises when the machine loses power.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Durability {
    /// What a server in production promises: a commit is on the disk.
    Durable,
    /// Nothing: as fast as it gets. Commits still wait for their WAL to be written, so that
    /// what other sessions see, and when, is as in production.
    Throwaway,
    /// What production promises, with the memory and the checkpoints that benchmarks are
    /// compared with; all else as the server's makers have it.
    Measured,
}

/// A running server with its data in a temporary folder. Stopped and removed when dropped.
#[derive(Debug)]
pub(crate) struct Cluster {
    binaries: Binaries,
    account: Option<Account>,
    /// Not there any more once the cluster is kept.
    folder: Option<TempDir>,
    port: u16,
}

impl Cluster {
    /// Makes a cluster and starts it on a free port of 127.0.0.1.
    pub(crate) fn start(
        binaries: &Binaries,
        durability: Durability,
        interrupt: &Interrupt,
    ) -> Result<Cluster> {
        let account = Account::for_servers()?;
        let folder = tempfile::Builder::new()
            .prefix("redrive-")
            .tempdir()
            .during(|| "cannot make a temporary folder for a cluster; set TMPDIR to another one")?;
        if let Some(account) = &account {
            account.own(folder.path())?;
        }
        let mut cluster = Cluster {
            binaries: binaries.clone(),
            account,
            folder: Some(folder),
            port: 0,
        };
        cluster.initialize(durability)?;
        for _ in 1..PORTS {
            interrupt.check()?;
            if cluster.launch().is_ok() {
                return Ok(cluster);
            }
        }
        cluster.launch().map(|()| cluster)
    }

    /// The URL of one of its databases, as superuser.
    pub(crate) fn url(&self, database: &str) -> String {
        format!("postgres://{SUPERUSER}@127.0.0.1:{}/{database}", self.port)
    }

    /// Makes an empty database and answers its URL.
    pub(crate) fn create_database(&self, name: &str) -> Result<String> {
        Client::connect(&self.url("postgres"), NoTls)
            // The name is one of ours: it needs no quoting.
            .and_then(|mut client| client.batch_execute(&format!("CREATE DATABASE {name}")))
            .during(|| format!("cannot create the database `{name}` of the throw-away cluster"))?;
        Ok(self.url(name))
    }

    /// Removes a database, whoever is still connected to it.
    pub(crate) fn drop_database(&self, name: &str) -> Result<()> {
        Client::connect(&self.url("postgres"), NoTls)
            .and_then(|mut client| {
                client.batch_execute(&format!("DROP DATABASE {name} WITH (FORCE)"))
            })
            .during(|| format!("cannot drop the database `{name}` of the throw-away cluster"))
    }

    /// Leaves it running, and answers the command that stops and removes it.
    pub(crate) fn keep(mut self) -> String {
        let mut command = String::new();
        if let Some(folder) = self.folder.take() {
            if let Some(account) = &self.account {
                // Writing to a String cannot fail.
                _ = write!(command, "runuser -u {} -- ", account.name);
            }
            let folder = folder.keep();
            let pg_ctl = self.binaries.path("pg_ctl");
            _ = write!(
                command,
                "{} -D {} -m fast stop && rm -r {}",
                quoted(&pg_ctl),
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
            .arg("--auth=trust")
            .args([
                &format!("--username={SUPERUSER}"),
                "--encoding=UTF8",
                "--locale=C",
            ]);
        if durability == Durability::Throwaway {
            initdb.arg("--no-sync");
        }
        output(&mut initdb).map_err(|why| {
            let temp = std::env::temp_dir();
            let account = self.account.as_ref().map_or("you", |account| &account.name);
            Error::new(format!(
                "cannot initialize a cluster below {}: {why}\n\
                 If that is about permissions: `{account}` must be able to enter the folder and to \
                 write there; set TMPDIR to one where that is so.",
                temp.display(),
            ))
        })?;
        let configuration = self.data().join("postgresql.conf");
        OpenOptions::new()
            .append(true)
            .open(&configuration)
            .and_then(|mut file| file.write_all(self.settings(durability).as_bytes()))
            .during(|| format!("cannot write {}", configuration.display()))
    }

    fn settings(&self, durability: Durability) -> String {
        let promises = match durability {
            Durability::Durable => "fsync = on\n",
            Durability::Throwaway => "fsync = off\nfull_page_writes = off\n",
            // Later lines win.
            Durability::Measured => "fsync = on\nshared_buffers = '1GB'\nmax_wal_size = '4GB'\n",
        };
        // The longest name of a socket is that of the highest port. Without a socket the
        // server can still be reached by TCP, which is all that we use.
        let path = self.place().display().to_string();
        let fits = path.len() + "/.s.PGSQL.65535".len() <= SOCKET_PATH;
        let socket_folder = if fits && !path.contains([',', '"', '\'']) {
            &path
        } else {
            ""
        };
        format!(
            "\n# Written by xtask.\n\
             listen_addresses = '127.0.0.1'\n\
             unix_socket_directories = '{socket_folder}'\n\
             max_connections = 200\n\
             max_prepared_transactions = 8\n\
             shared_buffers = '256MB'\n\
             synchronous_commit = on\n\
             {promises}"
        )
    }

    fn launch(&mut self) -> Result<()> {
        self.port = free_port()?;
        let mut pg_ctl = self.program("pg_ctl");
        pg_ctl
            .arg("start")
            .arg("--pgdata")
            .arg(self.data())
            .arg("--log")
            .arg(self.log());
        pg_ctl.args(["--wait", &format!("--timeout={}", PATIENCE.as_secs()), "-s"]);
        output(pg_ctl.args(["-o", &format!("-p {}", self.port)]))
            .map(drop)
            .map_err(|why| {
                Error::new(format!(
                    "cannot start PostgreSQL {} on port {}: {why}\nThe end of its log:\n{}",
                    self.binaries.version(),
                    self.port,
                    tail(
                        &fs::read_to_string(self.log()).unwrap_or_default(),
                        LOG_LINES
                    ),
                ))
            })
    }

    fn stop(&self) {
        for mode in ["fast", "immediate"] {
            let mut pg_ctl = self.program("pg_ctl");
            pg_ctl.arg("stop").arg("--pgdata").arg(self.data());
            pg_ctl.args(["--wait", "--timeout=20", "-s", "-m", mode]);
            let stopped = output(&mut pg_ctl).is_ok();
            // The server removes this file as the last thing it does.
            if stopped || !self.data().join("postmaster.pid").exists() {
                return;
            }
        }
        eprintln!(
            "the server in {} could not be stopped",
            self.place().display()
        );
    }

    /// A program of the server's, run under the account of the cluster.
    fn program(&self, name: &str) -> Command {
        let mut command = self.binaries.program(name);
        if let Some(account) = &self.account {
            account.run(&mut command);
        }
        // The programs complain when they cannot enter the folder they are started in.
        command.current_dir(self.place());
        command
    }

    fn place(&self) -> &Path {
        self.folder.as_ref().map_or(Path::new("/"), TempDir::path)
    }

    fn data(&self) -> PathBuf {
        self.place().join("data")
    }

    /// What the server writes about itself.
    pub(crate) fn log(&self) -> PathBuf {
        self.place().join("server.log")
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if self.data().join("postmaster.pid").exists() && self.folder.is_some() {
            self.stop();
        }
    }
}

/// Runs a program of the server's to its end; its own words when it fails. Out of reach of a
/// Ctrl-C: a start that is cut short would leave a server behind.
fn output(command: &mut Command) -> Result<String, String> {
    use std::os::unix::process::CommandExt;
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command
        .process_group(0)
        .output()
        .map_err(|error| format!("{name}: {error}"))?;
    let words = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    if output.status.success() {
        return Ok(words(&output.stdout));
    }
    Err(format!(
        "{name}: {}\n{}",
        output.status,
        tail(&words(&output.stderr), LOG_LINES)
    ))
}

fn free_port() -> Result<u16> {
    TcpListener::bind("127.0.0.1:0")
        .and_then(|listener| listener.local_addr())
        .map(|address| address.port())
        .during(|| "cannot find a free port on 127.0.0.1")
}

/// The last lines of a text, indented.
fn tail(text: &str, lines: usize) -> String {
    let all: Vec<&str> = text.lines().collect();
    let from = all.len().saturating_sub(lines);
    all[from..]
        .iter()
        .map(|line| format!("    {line}"))
        .collect::<Vec<_>>()
        .join("\n")
}

/// A path as a shell takes it.
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
    use super::*;

    #[test]
    fn a_cluster_serves_and_leaves_nothing_behind() {
        let interrupt = Interrupt::listen().expect("signals");
        let binaries = Binaries::find(&interrupt).expect("a PostgreSQL server is installed");
        let cluster =
            Cluster::start(&binaries, Durability::Throwaway, &interrupt).expect("it starts");
        let (place, port) = (cluster.place().to_owned(), cluster.port);
        let url = cluster.create_database("orders").expect("a database");
        assert_eq!(url, format!("postgres://postgres@127.0.0.1:{port}/orders"));
        let error = cluster
            .create_database("orders")
            .expect_err("it is there already");
        assert!(error.to_string().contains("already exists"), "{error}");
        std::net::TcpStream::connect(("127.0.0.1", port)).expect("it listens");

        drop(cluster);
        assert!(!place.exists(), "{} is still there", place.display());
        std::net::TcpStream::connect(("127.0.0.1", port)).expect_err("nobody listens");
    }

    #[test]
    fn a_failing_start_shows_the_log() {
        let interrupt = Interrupt::listen().expect("signals");
        let binaries = Binaries::find(&interrupt).expect("a PostgreSQL server is installed");
        let account = Account::for_servers().expect("an account");
        let folder = tempfile::tempdir().expect("a folder");
        if let Some(account) = &account {
            account.own(folder.path()).expect("it owns the folder");
        }
        let mut cluster = Cluster {
            binaries,
            account,
            folder: Some(folder),
            port: 0,
        };
        cluster
            .initialize(Durability::Throwaway)
            .expect("it initializes");
        let configuration = cluster.data().join("postgresql.conf");
        let text = fs::read_to_string(&configuration).expect("there is one") + "\nnonsense = 1\n";
        fs::write(&configuration, text).expect("it is written");
        let error = cluster
            .launch()
            .expect_err("a setting that nobody knows")
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
