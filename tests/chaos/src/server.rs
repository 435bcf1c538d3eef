//! A PostgreSQL server of our own, to be broken.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::{MetadataExt as _, chown};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use postgres::{Client, NoTls};
use rustix::process::{Pid, Signal, geteuid, kill_process};
use tempfile::TempDir;

/// How long a server may take to start, stop or recover.
const PATIENCE: Duration = Duration::from_mins(1);
/// The database of the actors.
pub(crate) const DATABASE: &str = "chaos";

/// Where a server keeps its write-ahead log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Disk {
    /// Beside its data.
    Plain,
    /// On a file system in memory, small enough to be filled.
    Small,
}

/// A server, stopped and removed when dropped.
#[derive(Debug)]
pub(crate) struct Server {
    programs: PathBuf,
    account: Option<(u32, u32)>,
    folder: TempDir,
    port: u16,
    disk: Disk,
}

impl Server {
    /// Makes one and starts it. `programs`: the folder of the server's programs.
    pub(crate) fn start_new(programs: &Path, disk: Disk) -> Server {
        let server = Server::new(programs, disk);
        if disk == Disk::Small {
            server.mount();
        }
        let mut options = vec![
            "--auth=trust",
            "--username=postgres",
            "--locale=C",
            "--encoding=UTF8",
            "--no-sync",
        ];
        let small = format!("--waldir={}", server.small_disk().join("wal").display());
        if disk == Disk::Small {
            options.push(&small);
        }
        server.run("initdb", &options);
        // Durable: a commit is on the disk, as in production.
        server.set(
            "listen_addresses = '127.0.0.1'\nunix_socket_directories = ''\nfsync = on\n\
             shared_buffers = '128MB'\nmax_connections = 80\nmax_wal_size = '192MB'\nmin_wal_size = '32MB'\n\
             wal_level = replica\nmax_wal_senders = 4\nhot_standby = on\nrestart_after_crash = on\n\
             log_line_prefix = '%m [%p] %a '\nlog_min_messages = warning\ncheckpoint_timeout = '60s'\n\
             wal_compression = on\ntrack_commit_timestamp = on\ndeadlock_timeout = '200ms'\n",
        );
        server.set(&format!("port = {}\n", server.port));
        server.start();
        let mut client =
            Client::connect(&server.url_of("postgres"), NoTls).expect("connect to the new server");
        client
            .batch_execute(&format!("CREATE DATABASE {DATABASE}"))
            .expect("make a database");
        server
    }

    fn new(programs: &Path, disk: Disk) -> Server {
        let account = geteuid().is_root().then(|| {
            let list = fs::read_to_string("/etc/passwd").expect("read /etc/passwd");
            ["postgres", "nobody"]
                .iter()
                .find_map(|name| account(&list, name))
                .expect("PostgreSQL does not run as root; make an account `postgres`")
        });
        let folder = tempfile::Builder::new()
            .prefix("redrive-chaos-")
            .tempdir()
            .expect("make a folder for a server");
        if let Some((uid, gid)) = account {
            chown(folder.path(), Some(uid), Some(gid)).expect("give the folder to the account");
        }
        let port = TcpListener::bind("127.0.0.1:0")
            .and_then(|listener| listener.local_addr())
            .expect("a free port")
            .port();
        // On a PATH there may be links to some of the programs only.
        let place = fs::canonicalize(programs.join("postgres"));
        let programs = place
            .as_ref()
            .ok()
            .and_then(|postgres| postgres.parent())
            .unwrap_or(programs);
        Server {
            programs: programs.to_owned(),
            account,
            folder,
            port,
            disk,
        }
    }

    /// A standby of it, which streams what it commits, after the fact; it runs when this returns.
    pub(crate) fn standby(&self) -> Server {
        let standby = Server::new(&self.programs, Disk::Plain);
        let source = format!("postgres://postgres@127.0.0.1:{}/", self.port);
        let begin = Instant::now();
        loop {
            // It may recover from what was done to it before, or not have noticed it yet.
            drop(self.client());
            let mut copy = standby.program("pg_basebackup");
            copy.arg("--pgdata").arg(standby.data());
            copy.args([
                "--dbname",
                &source,
                "--write-recovery-conf",
                "--checkpoint=fast",
                "--no-sync",
            ]);
            if begin.elapsed() > PATIENCE {
                succeed(&mut copy);
                break;
            }
            // It leaves nothing behind when it fails.
            let output = copy.output().expect("start a program of the server");
            if output.status.success() {
                break;
            }
        }
        standby.set(&format!("port = {}\n", standby.port));
        standby.start();
        standby
    }

    /// Makes a standby the server that writes.
    pub(crate) fn promote(&self) {
        self.run("pg_ctl", &["promote", "--wait", "--silent"]);
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Makes a folder or file belong to whom it runs as, and a command run as that.
    pub(crate) fn adopt(&self, path: &Path, command: &mut Command) {
        if let Some((uid, gid)) = self.account {
            chown(path, Some(uid), Some(gid)).expect("give a folder to the account");
            command.uid(uid).gid(gid);
        }
    }

    /// The URL of the database, past every proxy.
    pub(crate) fn url(&self) -> String {
        self.url_of(DATABASE)
    }

    fn url_of(&self, database: &str) -> String {
        format!(
            "postgres://postgres@127.0.0.1:{}/{database}?sslmode=disable",
            self.port
        )
    }

    /// A connection past every proxy; waits for a server that recovers.
    pub(crate) fn client(&self) -> Client {
        let begin = Instant::now();
        loop {
            match Client::connect(&self.url(), NoTls) {
                Ok(client) => return client,
                Err(error) => assert!(
                    begin.elapsed() < PATIENCE,
                    "cannot connect to the server: {error}"
                ),
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Starts it, and waits until it answers.
    pub(crate) fn start(&self) {
        let log = self.folder.path().join("log").display().to_string();
        self.run("pg_ctl", &["start", "--wait", "--silent", "--log", &log]);
    }

    /// Ends it without a goodbye, as a crash does.
    pub(crate) fn stop_immediately(&self) {
        let mut stop = self.program("pg_ctl");
        stop.arg("--pgdata").arg(self.data());
        // It may be down already: a full disk does that.
        _ = stop
            .args(["stop", "--wait", "--silent", "--mode=immediate"])
            .output();
    }

    /// Whether its postmaster runs.
    pub(crate) fn is_up(&self) -> bool {
        self.postmaster()
            .is_some_and(|pid| Path::new(&format!("/proc/{pid}")).exists())
    }

    /// Kills one of its backends with SIGKILL, after which it starts all of them anew.
    pub(crate) fn kill_backend(pid: i32) {
        signal(pid, Signal::KILL);
    }

    /// Stops the time of all of it.
    pub(crate) fn freeze(&self) -> Frozen {
        let mut processes = Vec::new();
        if let Some(postmaster) = self.postmaster() {
            // First the one who would start others.
            signal(postmaster, Signal::STOP);
            processes.push(postmaster);
            for child in children(postmaster) {
                signal(child, Signal::STOP);
                processes.push(child);
            }
        }
        Frozen(processes)
    }

    /// Stops the process of a standby that receives what the other server commits.
    pub(crate) fn freeze_receiver(&self) -> Frozen {
        let receivers: Vec<i32> = children(self.postmaster().unwrap_or_default())
            .into_iter()
            .filter(|pid| {
                fs::read_to_string(format!("/proc/{pid}/cmdline"))
                    .unwrap_or_default()
                    .contains("walreceiver")
            })
            .collect();
        for pid in &receivers {
            signal(*pid, Signal::STOP);
        }
        Frozen(receivers)
    }

    /// Fills the small disk; it has room again when the answer is dropped.
    pub(crate) fn fill_disk(&self) -> Ballast {
        let file = self.small_disk().join("ballast");
        let _full = fs::File::create(&file)
            .map(|mut file| std::io::copy(&mut std::io::repeat(0), &mut file));
        Ballast(file)
    }

    /// Copies what it said.
    pub(crate) fn keep_log(&self, to: &Path) {
        fs::copy(self.folder.path().join("log"), to).expect("keep the log of the server");
    }

    fn mount(&self) {
        let place = self.small_disk();
        fs::create_dir(&place).expect("make a folder for the small disk");
        let mut mount = Command::new("mount");
        mount
            .args(["-t", "tmpfs", "-o", "size=400m", "tmpfs"])
            .arg(&place);
        succeed(&mut mount);
        if let Some((uid, gid)) = self.account {
            chown(&place, Some(uid), Some(gid)).expect("give the small disk to the account");
        }
    }

    fn small_disk(&self) -> PathBuf {
        self.folder.path().join("small")
    }

    fn set(&self, settings: &str) {
        let file = self.data().join("postgresql.conf");
        let text = fs::read_to_string(&file).expect("its settings");
        fs::write(&file, text + settings).expect("write its settings");
    }

    fn postmaster(&self) -> Option<i32> {
        let file = fs::read_to_string(self.data().join("postmaster.pid")).ok()?;
        file.lines().next()?.trim().parse().ok()
    }

    fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    #[track_caller]
    fn run(&self, program: &str, arguments: &[&str]) {
        let mut command = self.program(program);
        succeed(command.arg("--pgdata").arg(self.data()).args(arguments));
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
            _ = Command::new("umount")
                .arg("--lazy")
                .arg(self.small_disk())
                .output();
        }
    }
}

/// Processes whose time stands still, until this is dropped.
#[derive(Debug)]
pub(crate) struct Frozen(Vec<i32>);

impl Frozen {
    /// Their time never goes on: what is on its way to them, they do not take any more.
    pub(crate) fn end(self) {
        for pid in &self.0 {
            signal(*pid, Signal::TERM);
        }
    }
}

impl Drop for Frozen {
    fn drop(&mut self) {
        for pid in &self.0 {
            signal(*pid, Signal::CONT);
        }
    }
}

/// What fills a disk, until this is dropped.
#[derive(Debug)]
pub(crate) struct Ballast(PathBuf);

impl Drop for Ballast {
    fn drop(&mut self) {
        _ = fs::remove_file(&self.0);
    }
}

/// Whether a file system can be mounted here, which takes root.
pub(crate) fn can_mount() -> bool {
    geteuid().is_root()
        && tempfile::tempdir().is_ok_and(|place| {
            let mounted = Command::new("mount")
                .args(["-t", "tmpfs", "-o", "size=1m", "tmpfs"])
                .arg(place.path())
                .output();
            let worked = mounted.is_ok_and(|output| output.status.success());
            if worked {
                _ = Command::new("umount").arg(place.path()).output();
            }
            worked && fs::metadata(place.path()).is_ok_and(|folder| folder.uid() == 0)
        })
}

#[track_caller]
fn succeed(command: &mut Command) {
    let output = command.output().expect("start a program of the server");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "{command:?}: {}: {said}",
        output.status
    );
}

fn account(list: &str, name: &str) -> Option<(u32, u32)> {
    let mut fields = list
        .lines()
        .map(|line| line.split(':'))
        .find_map(|mut fields| (fields.next() == Some(name)).then_some(fields))?;
    Some((fields.nth(1)?.parse().ok()?, fields.next()?.parse().ok()?))
}

fn children(parent: i32) -> Vec<i32> {
    let entries = fs::read_dir("/proc").expect("/proc").flatten();
    let processes = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    processes
        .filter(|pid| {
            let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
            status
                .lines()
                .any(|line| line == format!("PPid:\t{parent}"))
        })
        .collect()
}

fn signal(pid: i32, signal: Signal) {
    if let Some(pid) = Pid::from_raw(pid) {
        // It may have ended.
        _ = kill_process(pid, signal);
    }
}
