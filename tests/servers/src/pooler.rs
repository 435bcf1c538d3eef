//! A PgBouncer in transaction mode, with few enough server connections that clients share them.

use std::env;
use std::fs;
use std::net::TcpStream;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use tempfile::TempDir;

use crate::account::Account;
use crate::address::{free_port, parts, through};
use crate::frozen::signal;

/// Names the program if it is not in `PATH`.
const PROGRAM: &str = "PGBOUNCER";
/// How long a start may take.
const START: Duration = Duration::from_mins(1);

/// A running PgBouncer; killed when dropped.
#[derive(Debug)]
pub struct PgBouncer {
    child: Child,
    folder: TempDir,
    url: String,
    /// The settings that do not depend on the server.
    settings: String,
}

impl PgBouncer {
    /// Starts one in front of the server of a URL, with this many connections to it and more settings.
    pub fn before(url: &str, connections: u32, settings: &str) -> PgBouncer {
        let account = Account::for_servers();
        let (folder, port) = (account.folder_in(&env::temp_dir()), free_port());
        let settings = format!(
            "[pgbouncer]\npool_mode = transaction\ndefault_pool_size = {connections}\n\
             listen_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =\n\
             auth_type = any\nmax_client_conn = 500\nserver_login_retry = 0.1\n\
             logfile = {}\n{settings}",
            folder.path().join("log").display()
        );
        let file = folder.path().join("pgbouncer.ini");
        write(&folder, url, &settings);
        let program = env::var_os(PROGRAM).unwrap_or_else(|| "pgbouncer".into());
        let mut command = Command::new(program);
        command.arg("--quiet").arg(&file).current_dir("/");
        command.stdin(Stdio::null()).stdout(Stdio::null());
        command.stderr(Stdio::null()).process_group(0);
        account.runs(&mut command);
        let child = command
            .spawn()
            .unwrap_or_else(|error| panic!("run pgbouncer, which {PROGRAM} names: {error}"));
        let begin = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(begin.elapsed() < START, "PgBouncer does not listen");
            thread::sleep(Duration::from_millis(5));
        }
        PgBouncer {
            child,
            folder,
            url: through(port, url),
            settings,
        }
    }

    /// Returns the URL of the same database through PgBouncer.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Redirects it to another server.
    pub fn redirect(&self, url: &str) {
        write(&self.folder, url, &self.settings);
        signal(self.child.id().cast_signed(), Signal::HUP);
    }
}

fn write(folder: &TempDir, url: &str, settings: &str) {
    let (_, place, _) = parts(url);
    let (host, port) = place.split_once(':').expect("a host and a port");
    let databases = format!("[databases]\n* = host={host} port={port} user=postgres\n");
    let file = folder.path().join("pgbouncer.ini");
    fs::write(file, databases + settings).expect("write the settings of PgBouncer");
}

impl Drop for PgBouncer {
    fn drop(&mut self) {
        // It may have ended.
        _ = self.child.kill();
        _ = self.child.wait();
    }
}
