//! A PostgreSQL server that a test can stop, crash and freeze.

use std::env;
use std::fs;
use std::iter;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::process::Signal;
use tempfile::TempDir;

use crate::account::Account;
use crate::address::free_port;
use crate::frozen::{Frozen, children, signal};

const INITDB: [&str; 5] = [
    "--auth=trust",
    "--username=postgres",
    "--no-sync",
    "--locale=C",
    "--encoding=UTF8",
];

/// A server with its data in a temporary folder; stopped and removed when dropped.
#[derive(Debug)]
pub struct Server {
    /// The folder of PostgreSQL's programs.
    programs: PathBuf,
    account: Account,
    folder: TempDir,
    port: u16,
}

impl Server {
    /// Returns a server without data, for a port of 127.0.0.1.
    pub fn new(programs: &Path) -> Server {
        Server::below(&env::temp_dir(), programs)
    }

    /// Returns a server whose folder is below `place`.
    pub fn below(place: &Path, programs: &Path) -> Server {
        let account = Account::for_servers();
        Server {
            programs: programs.to_owned(),
            account,
            folder: account.folder_in(place),
            port: free_port(),
        }
    }

    /// Creates the data, with these settings.
    pub fn initialize(&self, settings: &str) -> Result<(), String> {
        self.run("initdb", &INITDB)?;
        self.set("listen_addresses = '127.0.0.1'\nunix_socket_directories = ''\n");
        self.set(&format!("port = {}\n", self.port));
        self.set(settings);
        Ok(())
    }

    /// Adds settings for the next start; the last value of a name applies.
    pub fn set(&self, settings: &str) {
        let file = self.data().join("postgresql.conf");
        let text = fs::read_to_string(&file).expect("read the settings of a server");
        fs::write(&file, text + settings).expect("write the settings of a server");
    }

    /// Starts the server and waits until it answers.
    pub fn start(&self) {
        self.try_start().expect("start a server");
    }

    /// Starts the server. Another process may have taken its port.
    pub fn try_start(&self) -> Result<(), String> {
        let log = self.log().display().to_string();
        self.run("pg_ctl", &["start", "--wait", "--silent", "--log", &log])
    }

    /// Stops it.
    pub fn stop(&self) {
        self.end("fast").expect("stop a server");
    }

    /// Stops it as a crash does. It may have stopped already.
    pub fn crash(&self) {
        _ = self.end("immediate");
    }

    /// Copies the data of the running server, which `fail_over` needs.
    pub fn copy(&self) -> Result<(), String> {
        let (copy, source) = (self.copied(), self.url_of(""));
        let place = copy.display().to_string();
        // The last folder counts.
        let options = ["--pgdata", &place, "--dbname", &source];
        let quick = ["--checkpoint=fast", "--no-sync"];
        self.run("pg_basebackup", &[&options[..], &quick].concat())?;
        let signal = copy.join("standby.signal");
        fs::write(&signal, "").expect("write the signal of a standby");
        self.account.owns(&signal);
        Ok(())
    }

    /// Crashes the server, and promotes a standby at its port that got nothing since the copy.
    pub fn fail_over(&self) {
        self.crash();
        let data = self.data();
        let moved = fs::remove_dir_all(&data).and_then(|()| fs::rename(self.copied(), &data));
        moved.expect("replace the data of a server");
        self.start();
        self.run("pg_ctl", &["promote", "--wait", "--silent"])
            .expect("promote a standby");
    }

    fn end(&self, mode: &str) -> Result<(), String> {
        self.run("pg_ctl", &["stop", "--wait", "--silent", "--mode", mode])
    }

    /// Kills a backend, after which the server restarts all of them.
    pub fn kill_backend(pid: i32) {
        signal(pid, Signal::KILL);
    }

    /// Freezes all processes, beginning with the postmaster, which would start others.
    pub fn freeze(&self) -> Frozen {
        let postmaster = self.postmaster();
        let others = iter::once_with(|| postmaster.map(children).unwrap_or_default()).flatten();
        Frozen::stop(postmaster.into_iter().chain(others))
    }

    /// Whether its postmaster runs.
    pub fn is_up(&self) -> bool {
        let is_there = |pid| Path::new(&format!("/proc/{pid}")).exists();
        self.postmaster().is_some_and(is_there)
    }

    /// Returns the port on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Returns the URL of a database.
    pub fn url_of(&self, database: &str) -> String {
        format!("postgres://postgres@127.0.0.1:{}/{database}", self.port)
    }

    /// Returns the account that runs it.
    pub fn account(&self) -> Account {
        self.account
    }

    /// Returns the folder of its data, its log and other files.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Returns the folder of its data.
    pub fn data(&self) -> PathBuf {
        self.folder().join("data")
    }

    /// Returns the path of its log.
    pub fn log(&self) -> PathBuf {
        self.folder().join("log")
    }

    fn copied(&self) -> PathBuf {
        self.folder().join("copy")
    }

    fn postmaster(&self) -> Option<i32> {
        let file = fs::read_to_string(self.data().join("postmaster.pid")).ok()?;
        file.lines().next()?.trim().parse().ok()
    }

    /// Runs a program of the server on its data.
    fn run(&self, program: &str, arguments: &[&str]) -> Result<(), String> {
        let mut command = Command::new(self.programs.join(program));
        command.arg("--pgdata").arg(self.data()).args(arguments);
        // Ctrl-C must not interrupt it.
        command.current_dir("/").process_group(0);
        // The environment of the shell may describe another server.
        for (variable, _) in env::vars_os() {
            if variable.to_string_lossy().starts_with("PG") {
                command.env_remove(variable);
            }
        }
        self.account.runs(&mut command);
        succeed(&mut command)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if self.postmaster().is_some() {
            self.crash();
        }
    }
}

/// Runs a command. Returns what it says if it fails.
pub(crate) fn succeed(command: &mut Command) -> Result<(), String> {
    let output = command.output();
    let output = output.map_err(|error| format!("{command:?}: {error}"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    match output.status.success() {
        true => Ok(()),
        false => Err(format!("{command:?}: {}: {said}", output.status)),
    }
}
