//! A server of a test's own, for what cannot be done to the one that all tests share: stopping it
//! and keeping it silent.

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
    /// Where its programs are: those of the server that the tests share.
    programs: PathBuf,
    account: Account,
    folder: PathBuf,
    port: u16,
}

impl Cluster {
    /// Makes one; it is not started.
    pub fn new() -> Cluster {
        Cluster::with("fsync = off")
    }

    /// Makes one with this setting beside the usual ones; it is not started.
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

    /// Adds settings, for its next start; the last one of a name counts.
    fn set(&self, settings: &str) {
        let file = self.data().join("postgresql.conf");
        let text = fs::read_to_string(&file).expect("its settings");
        fs::write(&file, text + settings).expect("write its settings");
    }

    /// Keeps a file that only its account can read, for as long as the cluster lives.
    pub fn keep(&self, name: &str, text: &str) -> PathBuf {
        let file = self.folder.join(name);
        fs::write(&file, text).expect("write a file");
        fs::set_permissions(&file, Permissions::from_mode(0o600)).expect("close a file");
        self.account.owns(&file);
        file
    }

    /// From its next start it talks TLS too, with this certificate.
    pub fn certify(&self, certificate: &str, key: &str) {
        let certificate = self.keep("server.pem", certificate);
        let key = self.keep("server.key", key);
        self.set(&format!(
            "ssl = on\nssl_cert_file = '{}'\nssl_key_file = '{}'\n",
            certificate.display(),
            key.display()
        ));
    }

    /// From its next start it talks to nobody without a certificate that these vouch for.
    pub fn demand_certificates(&self, roots: &str) {
        let roots = self.keep("clients.pem", roots);
        self.set(&format!("ssl_ca_file = '{}'\n", roots.display()));
        fs::write(
            self.data().join("pg_hba.conf"),
            "hostssl all all all cert\n",
        )
        .expect("write who may connect");
    }

    /// Starts it, and waits until it answers.
    pub fn start(&self) {
        let log = self.folder.join("log").display().to_string();
        self.run("pg_ctl", &["start", "--wait", "--silent", "--log", &log]);
    }

    /// Stops it.
    pub fn stop(&self) {
        self.run("pg_ctl", &["stop", "--wait", "--silent", "--mode=fast"]);
    }

    /// Ends it without a goodbye, as a crash does.
    pub fn crash(&self) {
        self.run(
            "pg_ctl",
            &["stop", "--wait", "--silent", "--mode=immediate"],
        );
    }

    /// Takes a base backup of it, beside its data.
    pub fn back_up(&self) {
        let backup = self.folder.join("backup");
        let mut command = self.bare("pg_basebackup");
        command
            .arg(format!("--dbname={}", self.url()))
            .arg("--pgdata")
            .arg(backup)
            .args(["--wal-method=stream", "--checkpoint=fast", "--no-sync"]);
        went_well("pg_basebackup", command);
    }

    /// Puts the backup where its data were; it must be stopped, and is not started.
    pub fn restore(&self) {
        fs::remove_dir_all(self.data()).expect("remove its data");
        fs::rename(self.folder.join("backup"), self.data()).expect("put the backup there");
    }

    /// Kills one of its backends, after which it starts all of them anew.
    pub fn kill_backend(&self, pid: i32) {
        signal(pid, Signal::KILL);
    }

    /// Its port on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The URL of its database.
    pub fn url(&self) -> String {
        format!("postgres://postgres@127.0.0.1:{}/postgres", self.port)
    }

    /// Where one of its programs is, such as `psql`.
    pub fn program(&self, name: &str) -> PathBuf {
        self.programs.join(name)
    }

    /// A plain connection to its database.
    pub fn client(&self) -> Client {
        Client::connect(&self.url(), NoTls).expect("connect to the server of the test")
    }

    /// Puts the schema of this library into its database.
    pub fn migrate(&self) -> Database {
        let db = redrive::connect(&self.url()).expect("connect to the server of the test");
        db.migrate().expect("migrate");
        db
    }

    /// Makes all of it silent, until the answer is dropped: connections stay open, and nobody reads
    /// or writes at the other end.
    pub fn silence(&self) -> Silence {
        let postmaster = self.postmaster().expect("it runs");
        let mut processes = vec![postmaster];
        // First the one who would start others.
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

    /// Makes one of its backends silent, until the answer is dropped.
    pub fn silence_backend(&self, pid: i32) -> Silence {
        signal(pid, Signal::STOP);
        Silence(vec![pid])
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

    /// One of its programs, on its data.
    fn command(&self, program: &str) -> Command {
        let mut command = self.bare(program);
        command.arg("--pgdata").arg(self.data());
        command
    }

    /// One of its programs, as its account.
    fn bare(&self, program: &str) -> Command {
        let mut command = Command::new(self.programs.join(program));
        command.current_dir(Path::new("/"));
        // What the caller's shell says about another server is not about this one.
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

/// A port of this machine that nobody has.
pub(crate) fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0")
        .and_then(|listener| listener.local_addr())
        .expect("a free port")
        .port()
}

/// Processes of a server that do nothing, until this is dropped.
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
        // It may have ended.
        _ = kill_process(pid, signal);
    }
}
