//! A server for one test, which the test can stop, crash and silence.

use std::fs::{self, Permissions};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use postgres::{Client, NoTls};
use redrive::Database;
use rustix::process::{Pid, Signal, kill_process};

use crate::account::Account;
use crate::database::server_url;

/// A PostgreSQL server with its data in a temporary folder; stopped and removed when dropped.
#[derive(Debug)]
pub struct Cluster {
    /// The folder of the programs, which are those of the shared server.
    programs: PathBuf,
    account: Account,
    folder: PathBuf,
    port: u16,
}

impl Cluster {
    /// Creates a cluster without starting it.
    pub fn new() -> Cluster {
        Cluster::with("fsync = off")
    }

    /// Creates a cluster with an additional setting, without starting it.
    pub fn with(setting: &str) -> Cluster {
        let mut shared = Client::connect(&server_url(), NoTls).expect("connect to the server");
        let asked = "SELECT setting FROM pg_config WHERE name = 'BINDIR'";
        let row = shared.query_one(asked, &[]).expect("ask the server");
        let programs: String = row.get(0);
        let account = Account::of_the_server();
        let folder = account.folder();
        let port = free_port();
        let cluster = Cluster {
            programs: programs.into(),
            account,
            folder,
            port,
        };
        cluster.run(
            "initdb",
            &[
                "--auth=trust",
                "--username=postgres",
                "--no-sync",
                "--locale=C",
                "--encoding=UTF8",
            ],
        );
        let settings = format!(
            "listen_addresses = '127.0.0.1'\nport = {port}\nunix_socket_directories = ''\n\
             {setting}\nshared_buffers = '16MB'\n"
        );
        cluster.set(&settings);
        cluster
    }

    /// Adds settings for the next start; the last value of a name applies.
    fn set(&self, settings: &str) {
        let file = self.data().join("postgresql.conf");
        let text = fs::read_to_string(&file).expect("its settings");
        fs::write(&file, text + settings).expect("write its settings");
    }

    /// Writes a file that only the account can read, removed with the cluster.
    pub fn keep(&self, name: &str, text: &str) -> PathBuf {
        let file = self.folder.join(name);
        fs::write(&file, text).expect("write a file");
        fs::set_permissions(&file, Permissions::from_mode(0o600)).expect("close a file");
        self.account.owns(&file);
        file
    }

    /// Enables TLS with this certificate from the next start.
    pub fn certify(&self, certificate: &str, key: &str) {
        let certificate = self.keep("server.pem", certificate);
        let key = self.keep("server.key", key);
        self.set(&format!(
            "ssl = on\nssl_cert_file = '{}'\nssl_key_file = '{}'\n",
            certificate.display(),
            key.display()
        ));
    }

    /// Requires client certificates of this authority from the next start.
    pub fn demand_certificates(&self, roots: &str) {
        let roots = self.keep("clients.pem", roots);
        self.set(&format!("ssl_ca_file = '{}'\n", roots.display()));
        fs::write(
            self.data().join("pg_hba.conf"),
            "hostssl all all all cert\n",
        )
        .expect("write who may connect");
    }

    /// Starts the server and waits until it answers.
    pub fn start(&self) {
        let log = self.folder.join("log").display().to_string();
        self.run("pg_ctl", &["start", "--wait", "--silent", "--log", &log]);
    }

    /// Stops it.
    pub fn stop(&self) {
        self.run("pg_ctl", &["stop", "--wait", "--silent", "--mode=fast"]);
    }

    /// Stops the server as a crash does.
    pub fn crash(&self) {
        self.run(
            "pg_ctl",
            &["stop", "--wait", "--silent", "--mode=immediate"],
        );
    }

    /// Kills a backend, after which the server restarts all of them.
    pub fn kill_backend(&self, pid: i32) {
        signal(pid, Signal::KILL);
    }

    /// Returns the port on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Returns the URL of the database.
    pub fn url(&self) -> String {
        format!("postgres://postgres@127.0.0.1:{}/postgres", self.port)
    }

    /// Opens a plain connection to the database.
    pub fn client(&self) -> Client {
        Client::connect(&self.url(), NoTls).expect("connect to the server of the test")
    }

    /// Migrates the database.
    pub fn migrate(&self) -> Database {
        let db = redrive::connect(&self.url()).expect("connect to the server of the test");
        db.migrate().expect("migrate");
        db
    }

    /// Freezes every process of the server until the result is dropped: connections stay open, and the
    /// server neither reads nor writes.
    pub fn silence(&self) -> Silence {
        let postmaster = self.postmaster().expect("it runs");
        let mut processes = vec![postmaster];
        // The postmaster first, because it would start others.
        signal(postmaster, Signal::STOP);
        for entry in fs::read_dir("/proc").expect("/proc").flatten() {
            let Some(pid) = entry
                .file_name()
                .to_str()
                .and_then(|name| name.parse().ok())
            else {
                continue;
            };
            let status = fs::read_to_string(entry.path().join("status")).unwrap_or_default();
            if status
                .lines()
                .any(|line| line == format!("PPid:\t{postmaster}"))
            {
                signal(pid, Signal::STOP);
                processes.push(pid);
            }
        }
        Silence(processes)
    }

    /// Freezes one backend until the result is dropped.
    pub fn silence_backend(&self, pid: i32) -> Silence {
        signal(pid, Signal::STOP);
        Silence(vec![pid])
    }

    /// Returns whether a client has sent bytes that the server has not read, as the kernel counts them.
    pub fn has_unread_bytes(&self) -> bool {
        let sockets = fs::read_to_string("/proc/net/tcp").expect("the sockets of this machine");
        let local = format!("0100007F:{:04X}", self.port);
        sockets.lines().any(|line| {
            let fields: Vec<_> = line.split_whitespace().collect();
            fields.len() > 4
                && fields[1] == local
                && fields[2] != "00000000:0000"
                && !fields[4].ends_with(":00000000")
        })
    }

    fn postmaster(&self) -> Option<i32> {
        let file = fs::read_to_string(self.data().join("postmaster.pid")).ok()?;
        file.lines().next()?.trim().parse().ok()
    }

    fn data(&self) -> PathBuf {
        self.folder.join("data")
    }

    #[track_caller]
    fn run(&self, program: &str, arguments: &[&str]) {
        let mut command = self.command(program);
        command.args(arguments);
        went_well(program, command);
    }

    /// Runs a program on the data of the server.
    fn command(&self, program: &str) -> Command {
        let mut command = self.bare(program);
        command.arg("--pgdata").arg(self.data());
        command
    }

    /// Runs a program as the account.
    fn bare(&self, program: &str) -> Command {
        let mut command = Command::new(self.programs.join(program));
        command.current_dir(Path::new("/"));
        // The environment of the shell may describe another server.
        for (variable, _) in std::env::vars_os() {
            if variable.to_string_lossy().starts_with("PG") {
                command.env_remove(variable);
            }
        }
        self.account.runs(&mut command);
        command
    }
}

impl Default for Cluster {
    fn default() -> Cluster {
        Cluster::new()
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if self.postmaster().is_some() {
            let mut stop = self.command("pg_ctl");
            drop(
                stop.args(["stop", "--wait", "--silent", "--mode=immediate"])
                    .output(),
            );
        }
        drop(fs::remove_dir_all(&self.folder));
    }
}

#[track_caller]
fn went_well(program: &str, mut command: Command) {
    let output = command.output().expect("run a program of the server");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "{program}: {}: {said}",
        output.status
    );
}

/// Returns a free port of this machine, below those that Linux gives to outgoing connections: one of
/// these could take the port before the server does.
pub(crate) fn free_port() -> u16 {
    let is_free = |port: &u16| TcpListener::bind(("127.0.0.1", *port)).is_ok();
    std::iter::repeat_with(|| fastrand::u16(10_000..32_000))
        .find(is_free)
        .expect("an endless search")
}

/// Frozen processes of a server; they continue when this is dropped.
#[derive(Debug)]
pub struct Silence(Vec<i32>);

impl Drop for Silence {
    fn drop(&mut self) {
        for pid in &self.0 {
            signal(*pid, Signal::CONT);
        }
    }
}

fn signal(pid: i32, signal: Signal) {
    if let Some(pid) = Pid::from_raw(pid) {
        // The process may have ended.
        _ = kill_process(pid, signal);
    }
}
