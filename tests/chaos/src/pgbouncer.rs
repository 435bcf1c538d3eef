//! A PgBouncer in transaction mode between the proxies and the server.

use std::fs;
use std::net::TcpStream;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::metrics_page::free_port;
use crate::server::{DATABASE, Server};

/// Connections to the server, fewer than the processes open to PgBouncer.
const SERVER_CONNECTIONS: u32 = 8;
/// How long a start may take.
const START_TIMEOUT: Duration = Duration::from_secs(10);

/// A running PgBouncer, killed when dropped.
#[derive(Debug)]
pub(crate) struct PgBouncer {
    child: Child,
    folder: TempDir,
    port: u16,
}

impl PgBouncer {
    /// Starts a PgBouncer in front of a server.
    pub(crate) fn start(program: &Path, server: &Server) -> PgBouncer {
        let folder = tempfile::Builder::new()
            .prefix("redrive-chaos-pgbouncer-")
            .tempdir()
            .expect("create a folder for PgBouncer");
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
                "cannot run {} (see --pgbouncer): {error}",
                program.display()
            )
        });
        let begin = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(
                begin.elapsed() < START_TIMEOUT,
                "PgBouncer does not accept connections"
            );
            std::thread::sleep(Duration::from_millis(20));
        }
        PgBouncer {
            child,
            folder,
            port,
        }
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Redirects it to another server.
    pub(crate) fn redirect(&self, server: &Server) {
        write(&self.folder, self.port, server);
        if let Some(pid) = Pid::from_raw(self.child.id().cast_signed()) {
            kill_process(pid, Signal::HUP).expect("make PgBouncer reload its settings");
        }
    }
}

fn write(folder: &TempDir, port: u16, server: &Server) {
    let settings = format!(
        "[databases]\n{DATABASE} = host=127.0.0.1 port={} user=postgres\n\
         [pgbouncer]\npool_mode = transaction\ndefault_pool_size = {SERVER_CONNECTIONS}\n\
         listen_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =\nauth_type = any\n\
         max_client_conn = 500\nserver_login_retry = 0.2\nserver_connect_timeout = 5\n\
         logfile = {}\n",
        server.port(),
        folder.path().join("log").display(),
    );
    fs::write(folder.path().join("pgbouncer.ini"), settings).expect("write the settings");
}

impl Drop for PgBouncer {
    fn drop(&mut self) {
        // It may have exited already.
        _ = self.child.kill();
        _ = self.child.wait();
    }
}
