//! A PgBouncer for one test, in transaction mode, with few enough server connections that clients
//! share them.

use std::env;
use std::fs;
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use postgres::{Client, NoTls};
use redrive::{Database, DatabaseBuilder, Pooler, Queue};

use crate::account::Account;
use crate::cluster::free_port;
use crate::wait::{SOON, wait_until};

/// Names the program if it is not in `PATH`.
const PROGRAM: &str = "PGBOUNCER";

/// A running PgBouncer; killed when dropped.
#[derive(Debug)]
pub struct Bouncer {
    child: Child,
    folder: PathBuf,
    url: String,
}

impl Bouncer {
    /// Starts one in front of the server of this URL, with this many connections to it.
    pub fn before(url: &str, connections: u32) -> Bouncer {
        Bouncer::with(url, connections, "")
    }

    /// Starts one with these lines in its settings.
    pub fn with(url: &str, connections: u32, settings: &str) -> Bouncer {
        let (_, rest) = url.split_once('@').expect("a URL with a role");
        let (place, database) = rest.split_once('/').expect("a URL with a database");
        let (host, server_port) = place.split_once(':').expect("a host and a port");
        let account = Account::of_the_server();
        let (folder, port) = (account.folder(), free_port());
        let settings = format!(
            "[databases]\n* = host={host} port={server_port} user=postgres\n\
             [pgbouncer]\npool_mode = transaction\ndefault_pool_size = {connections}\n\
             listen_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =\n\
             auth_type = any\nmax_client_conn = 500\nserver_login_retry = 0.1\n\
             logfile = {}\n{settings}",
            folder.join("log").display()
        );
        let file = folder.join("pgbouncer.ini");
        fs::write(&file, settings).expect("write the settings of PgBouncer");
        account.owns(&file);
        let program = env::var_os(PROGRAM).unwrap_or_else(|| "pgbouncer".into());
        let mut command = Command::new(program);
        command.arg("--quiet").arg(&file).current_dir("/");
        command.stdin(Stdio::null()).stdout(Stdio::null());
        account.runs(&mut command);
        let child = command
            .spawn()
            .unwrap_or_else(|error| panic!("run pgbouncer, which {PROGRAM} names: {error}"));
        let bouncer = Bouncer {
            child,
            folder,
            url: format!("postgres://postgres@127.0.0.1:{port}/{database}"),
        };
        wait_until("PgBouncer to listen", SOON, || {
            TcpStream::connect(("127.0.0.1", port)).is_ok()
        });
        bouncer
    }

    /// Returns the URL of the same database through PgBouncer.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Returns the builder of a handle that declares the pooler.
    pub fn builder(&self) -> DatabaseBuilder {
        Database::builder(&self.url).pooler(Pooler::Transaction)
    }

    /// Opens a new handle that declares the pooler.
    pub fn open(&self) -> Database {
        self.builder().open().expect("connect through PgBouncer")
    }

    /// Returns a queue of a new handle.
    pub fn queue(&self, name: &str) -> Queue {
        Queue::new(&self.open(), name).expect("a valid name")
    }

    /// Opens a plain connection through PgBouncer.
    pub fn client(&self) -> Client {
        Client::connect(&self.url, NoTls).expect("connect through PgBouncer")
    }
}

impl Drop for Bouncer {
    fn drop(&mut self) {
        // The process may have ended.
        drop(self.child.kill());
        drop(self.child.wait());
        drop(fs::remove_dir_all(&self.folder));
    }
}
