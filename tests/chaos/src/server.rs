//! A PostgreSQL server that the run creates, breaks and removes.

mod disk;
mod process;

use std::fs;
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use postgres::{Client, NoTls};
use rustix::process::{Signal, geteuid};
use tempfile::TempDir;

pub(crate) use disk::{Ballast, Disk, can_mount};
pub(crate) use process::Frozen;
use process::{children, signal};

use crate::metrics_page::free_port;

/// How long a start, a stop or a recovery may take.
const TIMEOUT: Duration = Duration::from_mins(1);
/// How often a set-up is tried.
const START_TRIES: usize = 3;
/// The database of all processes.
pub(crate) const DATABASE: &str = "chaos";

/// A running server, stopped and removed when dropped.
#[derive(Debug)]
pub(crate) struct Server {
    programs: PathBuf,
    account: Option<(u32, u32)>,
    folder: TempDir,
    port: u16,
    disk: Disk,
}

impl Server {
    /// Creates a server and starts it. `programs` is the folder of PostgreSQL's programs. Another process may take the
    /// port, or a busy machine be slow.
    pub(crate) fn start_new(programs: &Path, disk: Disk) -> Server {
        let mut errors = Vec::new();
        for _ in 0..START_TRIES {
            match Server::try_start(programs, disk) {
                Ok(server) => return server,
                Err(error) => errors.push(error),
            }
        }
        panic!("cannot set up a server: {errors:?}");
    }

    fn try_start(programs: &Path, disk: Disk) -> Result<Server, String> {
        let server = Server::new(programs, disk);
        let mut options = "--auth=trust --username=postgres --locale=C --encoding=UTF8 --no-sync"
            .split(' ')
            .collect::<Vec<_>>();
        let small = server.log_folder();
        options.extend(small.as_deref());
        server.run("initdb", &options)?;
        // Commits are durable, as in production.
        server.set(
            "listen_addresses = '127.0.0.1'\nunix_socket_directories = ''\nfsync = on\n\
             shared_buffers = '128MB'\nmax_connections = 280\nmax_wal_size = '192MB'\nmin_wal_size = '32MB'\n\
             wal_level = replica\nmax_wal_senders = 4\nhot_standby = on\nrestart_after_crash = on\n\
             log_line_prefix = '%m [%p] %e %a '\nlog_min_messages = warning\ncheckpoint_timeout = '60s'\n\
             wal_compression = on\ntrack_commit_timestamp = on\ndeadlock_timeout = '200ms'\n",
        );
        server.set(&format!("port = {}\n", server.port));
        server.try_start_it()?;
        let connected = Client::connect(&url(server.port, "postgres"), NoTls);
        let mut client = connected.map_err(|error| error.to_string())?;
        let create = format!("CREATE DATABASE {DATABASE}");
        client
            .batch_execute(&create)
            .map_err(|error| error.to_string())?;
        Ok(server)
    }

    fn new(programs: &Path, disk: Disk) -> Server {
        let account = geteuid().is_root().then(|| {
            let list = fs::read_to_string("/etc/passwd").expect("read /etc/passwd");
            ["postgres", "nobody"]
                .iter()
                .find_map(|name| account(&list, name))
                .expect("PostgreSQL does not run as root; create an account `postgres`")
        });
        let folder = tempfile::Builder::new()
            .prefix("redrive-chaos-")
            .tempdir()
            .expect("create a folder for a server");
        if let Some((uid, gid)) = account {
            chown(folder.path(), Some(uid), Some(gid)).expect("change the owner of a folder");
        }
        let port = free_port();
        let server = Server {
            programs: place_of(programs),
            account,
            folder,
            port,
            disk,
        };
        if disk == Disk::Small {
            disk::mount(&server.small_disk());
            server.give_to_account(&server.small_disk());
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
        let source = format!("postgres://postgres@127.0.0.1:{}/", self.port);
        let begin = Instant::now();
        loop {
            // The server may still recover from an earlier fault, or not have noticed it yet.
            drop(self.client());
            let mut copy = standby.program("pg_basebackup");
            copy.arg("--pgdata")
                .arg(standby.data())
                .args(["--dbname", &source]);
            copy.args(["--write-recovery-conf", "--checkpoint=fast", "--no-sync"]);
            copy.args(standby.log_folder());
            // pg_basebackup removes its files when it fails, so it can be repeated.
            match succeed(&mut copy) {
                Ok(()) => break,
                Err(error) => assert!(begin.elapsed() < TIMEOUT, "{error}"),
            }
        }
        standby.set(&format!("port = {}\n", standby.port));
        standby.start();
        standby
    }

    /// Promotes a standby.
    pub(crate) fn promote(&self) {
        self.run("pg_ctl", &["promote", "--wait", "--silent"])
            .expect("promote");
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Gives a folder to the server's account, and runs a command as this account.
    pub(crate) fn adopt(&self, path: &Path, command: &mut Command) {
        if let Some((uid, gid)) = self.account {
            self.give_to_account(path);
            command.uid(uid).gid(gid);
        }
    }

    fn give_to_account(&self, path: &Path) {
        if let Some((uid, gid)) = self.account {
            chown(path, Some(uid), Some(gid)).expect("change the owner of a folder");
        }
    }

    /// Returns the URL of the database, without a proxy.
    pub(crate) fn url(&self) -> String {
        url_at(self.port)
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

    /// Starts it and waits until it accepts connections.
    pub(crate) fn start(&self) {
        self.try_start_it().expect("start the server");
    }

    fn try_start_it(&self) -> Result<(), String> {
        let log = self.folder.path().join("log").display().to_string();
        self.run("pg_ctl", &["start", "--wait", "--silent", "--log", &log])
    }

    /// Stops it as a crash would.
    pub(crate) fn stop_immediately(&self) {
        let mut stop = self.program("pg_ctl");
        stop.arg("--pgdata").arg(self.data());
        // A full disk may have stopped it already.
        _ = stop
            .args(["stop", "--wait", "--silent", "--mode=immediate"])
            .output();
    }

    /// Whether its postmaster runs.
    pub(crate) fn is_up(&self) -> bool {
        self.postmaster()
            .is_some_and(|pid| Path::new(&format!("/proc/{pid}")).exists())
    }

    /// Kills a backend with SIGKILL. The server then restarts all of its processes.
    pub(crate) fn kill_backend(pid: i32) {
        signal(pid, Signal::KILL);
    }

    /// Stops all its processes, beginning with the postmaster, which would start others.
    pub(crate) fn freeze(&self) -> Frozen {
        let postmaster: Vec<i32> = self.postmaster().into_iter().collect();
        let frozen = Frozen::stop(postmaster.clone());
        let children = postmaster.into_iter().flat_map(children);
        children.fold(frozen, Frozen::and)
    }

    /// Stops a standby's WAL receiver.
    pub(crate) fn freeze_receiver(&self) -> Frozen {
        let receivers: Vec<i32> = children(self.postmaster().unwrap_or_default())
            .into_iter()
            .filter(|pid| {
                fs::read_to_string(format!("/proc/{pid}/cmdline"))
                    .unwrap_or_default()
                    .contains("walreceiver")
            })
            .collect();
        Frozen::stop(receivers)
    }

    /// Fills the small disk until the result is dropped.
    pub(crate) fn fill_disk(&self) -> std::io::Result<Ballast> {
        Ballast::fill(&self.small_disk())
    }

    /// Returns the errors of class 42 in its log: those of statements that are wrong themselves.
    pub(crate) fn wrong_statements(&self) -> Vec<String> {
        let log = fs::read_to_string(self.folder.path().join("log"));
        let log = log.expect("read the log of the server");
        let errors = log.lines().filter(|line| line.contains("ERROR:  "));
        let class = |line: &str| {
            line.split(' ')
                .nth(4)
                .map(|state| state.get(..2) == Some("42"))
        };
        errors
            .filter(|line| class(line) == Some(true))
            .map(str::to_owned)
            .collect()
    }

    /// Copies its log.
    pub(crate) fn keep_log(&self, to: &Path) {
        fs::copy(self.folder.path().join("log"), to).expect("copy the log of the server");
    }

    fn small_disk(&self) -> PathBuf {
        self.folder.path().join("small")
    }

    fn set(&self, settings: &str) {
        let file = self.data().join("postgresql.conf");
        let text = fs::read_to_string(&file).expect("read the settings of the server");
        fs::write(&file, text + settings).expect("write the settings of the server");
    }

    fn postmaster(&self) -> Option<i32> {
        let file = fs::read_to_string(self.data().join("postmaster.pid")).ok()?;
        file.lines().next()?.trim().parse().ok()
    }

    fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    fn run(&self, program: &str, arguments: &[&str]) -> Result<(), String> {
        let mut command = self.program(program);
        succeed(command.arg("--pgdata").arg(self.data()).args(arguments))
    }

    fn program(&self, name: &str) -> Command {
        let mut command = Command::new(self.programs.join(name));
        command.current_dir("/").process_group(0);
        for (variable, _) in std::env::vars_os() {
            if variable.to_string_lossy().starts_with("PG") {
                command.env_remove(variable);
            }
        }
        if let Some((uid, gid)) = self.account {
            command.uid(uid).gid(gid);
        }
        command
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if self.postmaster().is_some() {
            self.stop_immediately();
        }
        if self.disk == Disk::Small {
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

/// Returns the URL of the processes' database at a port.
pub(crate) fn url_at(port: u16) -> String {
    url(port, DATABASE)
}

fn url(port: u16, database: &str) -> String {
    format!("postgres://postgres@127.0.0.1:{port}/{database}?sslmode=disable")
}

/// Runs a command. Returns what it says if it fails.
fn succeed(command: &mut Command) -> Result<(), String> {
    let output = command
        .output()
        .map_err(|error| format!("{command:?}: {error}"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    match output.status.success() {
        true => Ok(()),
        false => Err(format!("{command:?}: {}: {said}", output.status)),
    }
}

fn account(list: &str, name: &str) -> Option<(u32, u32)> {
    let mut fields = list
        .lines()
        .map(|line| line.split(':'))
        .find_map(|mut fields| (fields.next() == Some(name)).then_some(fields))?;
    Some((fields.nth(1)?.parse().ok()?, fields.next()?.parse().ok()?))
}
