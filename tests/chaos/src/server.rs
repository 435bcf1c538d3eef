//! A PostgreSQL server that the run creates, breaks and removes.

mod disk;

use std::fs;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use postgres::{Client, NoTls};
use redrive_servers::{Frozen, Server as Plain};

pub(crate) use disk::{Ballast, Disk, can_mount};

/// How long a start, a stop or a recovery may take.
const TIMEOUT: Duration = Duration::from_mins(1);
/// The database of all processes.
const DATABASE: &str = "chaos";

/// Commits are durable, as in production.
const SETTINGS: &str = "fsync = on\nshared_buffers = '128MB'\nmax_connections = 280\nmax_wal_size = '192MB'\n\
     min_wal_size = '32MB'\nwal_level = replica\nmax_wal_senders = 4\nhot_standby = on\nrestart_after_crash = on\n\
     log_line_prefix = '%m [%p] %e %a '\nlog_min_messages = warning\ncheckpoint_timeout = '60s'\n\
     wal_compression = on\ntrack_commit_timestamp = on\ndeadlock_timeout = '200ms'\n";

/// A running server, stopped and removed when dropped.
#[derive(Debug)]
pub(crate) struct Server {
    plain: Plain,
    programs: PathBuf,
    disk: Disk,
}

impl Server {
    /// Creates a server and starts it. `programs` is the folder of PostgreSQL's programs. A play whose server does not
    /// start, as when another process took its port, is played again.
    pub(crate) fn start_new(programs: &Path, disk: Disk) -> Server {
        let server = Server::new(&place_of(programs), disk);
        let small = server.log_folder();
        let options: Vec<&str> = small.as_deref().into_iter().collect();
        let created = server.initialize(&options, SETTINGS);
        created.expect("create a server");
        server.start();
        let client = Client::connect(&server.url_of("postgres"), NoTls);
        let query = format!("CREATE DATABASE {DATABASE}");
        let created = client.and_then(|mut client| client.batch_execute(&query));
        created.expect("create the database");
        server
    }

    fn new(programs: &Path, disk: Disk) -> Server {
        let server = Server {
            plain: Plain::new(programs),
            programs: programs.to_owned(),
            disk,
        };
        if disk == Disk::Small {
            disk::mount(&server.small_disk());
            server.account().owns(&server.small_disk());
        }
        server
    }

    /// The option that puts the write-ahead log on the small disk.
    fn log_folder(&self) -> Option<String> {
        let folder = self.small_disk().join("wal");
        (self.disk == Disk::Small).then(|| format!("--waldir={}", folder.display()))
    }

    /// Creates and starts an asynchronous standby.
    pub(crate) fn standby(&self) -> Server {
        let standby = Server::new(&self.programs, self.disk);
        let (source, small) = (self.url_of(""), standby.log_folder());
        let mut options = vec!["--dbname", &source, "--write-recovery-conf"];
        options.extend(["--checkpoint=fast", "--no-sync"]);
        options.extend(small.as_deref());
        let begin = Instant::now();
        loop {
            // The server may still recover from an earlier fault, or not have noticed it yet.
            drop(self.client());
            // pg_basebackup removes its files when it fails, so it can be repeated.
            match standby.run("pg_basebackup", &options) {
                Ok(()) => break,
                Err(error) => assert!(begin.elapsed() < TIMEOUT, "{error}"),
            }
        }
        standby.set_port();
        standby.start();
        standby
    }

    /// Promotes a standby.
    pub(crate) fn promote(&self) {
        self.run("pg_ctl", &["promote", "--wait", "--silent"])
            .expect("promote");
    }

    /// Returns the URL of the database, without a proxy.
    pub(crate) fn url(&self) -> String {
        self.url_of(&format!("{DATABASE}?sslmode=disable"))
    }

    /// Connects without a proxy. Waits while the server recovers.
    pub(crate) fn client(&self) -> Client {
        let begin = Instant::now();
        loop {
            match Client::connect(&self.url(), NoTls) {
                Ok(client) => return client,
                Err(error) => assert!(
                    begin.elapsed() < TIMEOUT,
                    "cannot connect to the server: {error}"
                ),
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Stops a standby's WAL receiver.
    pub(crate) fn freeze_receiver(&self) -> Frozen {
        let is_receiver = |pid: &i32| {
            let command = fs::read_to_string(format!("/proc/{pid}/cmdline"));
            command.is_ok_and(|command| command.contains("walreceiver"))
        };
        Frozen::stop(self.processes().into_iter().filter(is_receiver))
    }

    /// Fills the small disk until the result is dropped.
    pub(crate) fn fill_disk(&self) -> std::io::Result<Ballast> {
        Ballast::fill(&self.small_disk())
    }

    /// Returns the errors of class 42 in its log: those of statements that are wrong themselves.
    pub(crate) fn wrong_statements(&self) -> Vec<String> {
        let log = fs::read_to_string(self.log()).expect("read the log of the server");
        let errors = log.lines().filter(|line| line.contains("ERROR:  "));
        let is_wrong = |line: &&str| {
            let state = line.split(' ').nth(4);
            state.is_some_and(|state| state.starts_with("42"))
        };
        errors.filter(is_wrong).map(str::to_owned).collect()
    }

    /// Copies its log.
    pub(crate) fn keep_log(&self, to: &Path) {
        fs::copy(self.log(), to).expect("copy the log of the server");
    }

    fn small_disk(&self) -> PathBuf {
        self.folder().join("small")
    }
}

impl Deref for Server {
    type Target = Plain;

    fn deref(&self) -> &Plain {
        &self.plain
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if self.disk == Disk::Small {
            self.crash();
            disk::unmount(&self.small_disk());
        }
    }
}

/// Returns the folder that has all programs. The given one, from the PATH, may have links to only some.
pub(crate) fn place_of(programs: &Path) -> PathBuf {
    fs::canonicalize(programs.join("postgres"))
        .ok()
        .and_then(|postgres| postgres.parent().map(Path::to_owned))
        .unwrap_or_else(|| programs.to_owned())
}
