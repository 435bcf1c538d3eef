//! A PgBouncer in transaction mode between the proxies and the server.

use std::fs;
use std::net::TcpStream;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::page::free_port;
use crate::server::{DATABASE, Server};

/// How many connections to the server all actors share: fewer than they have.
const CONNECTIONS: u32 = 8;
/// How long it may take to start.
const PATIENCE: Duration = Duration::from_secs(10);

/// A running one; killed when dropped.
#[derive(Debug)]
pub(crate) struct Bouncer {
    child: Child,
    folder: TempDir,
    port: u16,
}

impl Bouncer {
    /// Starts one before a server. `program`: its program.
    pub(crate) fn start(program: &Path, server: &Server) -> Bouncer {
        let folder = tempfile::Builder::new()
            .prefix("redrive-chaos-pgbouncer-")
            .tempdir()
            .expect("make a folder for PgBouncer");
        let port = free_port();
        let file = folder.path().join("pgbouncer.ini");
        write(&folder, port, server);
        let mut command = Command::new(program);
        command.arg("--quiet").arg(&file).current_dir("/");
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        command.process_group(0);
        server.adopt(folder.path(), &mut command);
        let child = command.spawn().unwrap_or_else(|error| {
            panic!(
                "run {}, which --pgbouncer names: {error}",
                program.display()
            )
        });
        let begin = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(begin.elapsed() < PATIENCE, "PgBouncer does not listen");
            std::thread::sleep(Duration::from_millis(20));
        }
        Bouncer {
            child,
            folder,
            port,
        }
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// From now on this is the server.
    pub(crate) fn aim(&self, server: &Server) {
        write(&self.folder, self.port, server);
        if let Some(pid) = Pid::from_raw(self.child.id().cast_signed()) {
            kill_process(pid, Signal::HUP).expect("tell PgBouncer to read its settings");
        }
    }
}

/// Writes its settings.
fn write(folder: &TempDir, port: u16, server: &Server) {
    let settings = format!(
        "[databases]\n{DATABASE} = host=127.0.0.1 port={} user=postgres\n\
         [pgbouncer]\npool_mode = transaction\ndefault_pool_size = {CONNECTIONS}\n\
         listen_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =\nauth_type = any\n\
         max_client_conn = 500\nserver_login_retry = 0.2\nserver_connect_timeout = 5\n\
         logfile = {}\n",
        server.port(),
        folder.path().join("log").display(),
    );
    fs::write(folder.path().join("pgbouncer.ini"), settings).expect("write the settings");
}

impl Drop for Bouncer {
    fn drop(&mut self) {
        // It may have ended.
        _ = self.child.kill();
        _ = self.child.wait();
    }
}
