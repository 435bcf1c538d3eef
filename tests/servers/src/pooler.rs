//! A PgBouncer in transaction mode, with few enough server connections that clients share them.

use std::env;
use std::fs;
use std::net::TcpStream;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::account::Account;
use crate::address::{free_port, parts, through};

/// Names the program if it is not in `PATH`.
const PROGRAM: &str = "PGBOUNCER";
/// How long a start may take.
const START: Duration = Duration::from_mins(1);

/// A running PgBouncer; killed when dropped.
#[derive(Debug)]
pub struct PgBouncer {
    child: Child,
    url: String,
    /// Its settings and its log.
    _folder: TempDir,
}

impl PgBouncer {
    /// Starts one in front of the server of a URL, with this many connections to it and more settings.
    pub fn before(url: &str, connections: u32, settings: &str) -> PgBouncer {
        let account = Account::for_servers();
        let (folder, port) = (account.folder_in(&env::temp_dir()), free_port());
        let (_, place, _) = parts(url);
        let (host, server_port) = place.split_once(':').expect("a host and a port");
        let settings = format!(
            "[databases]\n* = host={host} port={server_port} user=postgres\n\
             [pgbouncer]\npool_mode = transaction\ndefault_pool_size = {connections}\n\
             listen_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =\n\
             auth_type = any\nmax_client_conn = 500\nserver_login_retry = 0.1\n\
             logfile = {}\n{settings}",
            folder.path().join("log").display()
        );
        let file = folder.path().join("pgbouncer.ini");
        fs::write(&file, settings).expect("write the settings of PgBouncer");
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
            url: through(port, url),
            _folder: folder,
        }
    }

    /// Returns the URL of the same database through PgBouncer.
    pub fn url(&self) -> &str {
        &self.url
    }
}

impl Drop for PgBouncer {
    fn drop(&mut self) {
        // It may have ended.
        _ = self.child.kill();
        _ = self.child.wait();
    }
}
