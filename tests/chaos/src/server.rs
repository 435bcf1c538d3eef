//! A PostgreSQL server that the run creates, breaks and removes.

use std::env;
use std::fs;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use postgres::{Client, NoTls};
use redrive_servers::{Server as Plain, SmallDisk};

/// How long a recovery may take.
const TIMEOUT: Duration = Duration::from_mins(1);
/// The database of all processes.
const DATABASE: &str = "chaos";

/// Commits are durable, as in production.
const SETTINGS: &str = "fsync = on\nshared_buffers = '128MB'\nmax_connections = 280\nmax_wal_size = '192MB'\n\
     min_wal_size = '32MB'\nrestart_after_crash = on\n\
     log_line_prefix = '%m [%p] %e %a '\nlog_min_messages = warning\ncheckpoint_timeout = '60s'\n\
     wal_compression = on\ntrack_commit_timestamp = on\ndeadlock_timeout = '200ms'\n";

/// A running server, stopped and removed when dropped.
#[derive(Debug)]
pub(crate) struct Server {
    plain: Plain,
    /// The disk of its folder, if that is small. It is dropped last.
    disk: Option<SmallDisk>,
}

impl Server {
    /// Creates a server and starts it. `programs` is the folder of PostgreSQL's programs. A play whose server does not
    /// start, as when another process took its port, is played again.
    pub(crate) fn start_new(programs: &Path, has_small_disk: bool) -> Server {
        let mounted = || SmallDisk::mount().expect("mount the small disk");
        let (disk, large) = (has_small_disk.then(mounted), env::temp_dir());
        let place = disk.as_ref().map_or(&*large, SmallDisk::place);
        let plain = Plain::below(place, &place_of(programs));
        let server = Server { plain, disk };
        let created = server.initialize(SETTINGS);
        created.expect("create a server");
        server.start();
        let client = Client::connect(&server.url_of("postgres"), NoTls);
        let query = format!("CREATE DATABASE {DATABASE}");
        let created = client.and_then(|mut client| client.batch_execute(&query));
        created.expect("create the database");
        server
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

    /// Returns its disk, which is small.
    pub(crate) fn disk(&self) -> &SmallDisk {
        self.disk.as_ref().expect("a server on a small disk")
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
}

impl Deref for Server {
    type Target = Plain;

    fn deref(&self) -> &Plain {
        &self.plain
    }
}

/// Returns the folder that has all programs. The given one, from the PATH, may have links to only some.
pub(crate) fn place_of(programs: &Path) -> PathBuf {
    fs::canonicalize(programs.join("postgres"))
        .ok()
        .and_then(|postgres| postgres.parent().map(Path::to_owned))
        .unwrap_or_else(|| programs.to_owned())
}
