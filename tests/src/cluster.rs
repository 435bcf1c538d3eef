//! A server for one test, which the test can stop, crash and freeze.

use std::fs::{self, Permissions};
use std::ops::Deref;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use postgres::{Client, NoTls};
use redrive::Database;
use redrive_servers::Server;

use crate::database::server_url;
use crate::statement::Sql as _;

/// A PostgreSQL server of the version of the shared one, with the database `postgres`.
#[derive(Debug)]
pub struct Cluster(Server);

impl Cluster {
    /// Creates a cluster without starting it.
    pub fn new() -> Cluster {
        Cluster::with("fsync = off")
    }

    /// Creates a cluster with an additional setting, without starting it.
    pub fn with(setting: &str) -> Cluster {
        let mut shared = Client::connect(&server_url(), NoTls).expect("connect to the server");
        let asked = "SELECT setting FROM pg_config WHERE name = 'BINDIR'";
        let server = Server::new(Path::new(&shared.ask::<String>(asked, &[])));
        let settings = format!("{setting}\nshared_buffers = '16MB'\n");
        server.initialize(&settings).expect("create a server");
        Cluster(server)
    }

    /// Writes a file that only the account can read, removed with the cluster.
    pub fn keep(&self, name: &str, text: &str) -> PathBuf {
        let file = self.folder().join(name);
        fs::write(&file, text).expect("write a file");
        fs::set_permissions(&file, Permissions::from_mode(0o600)).expect("close a file");
        self.account().owns(&file);
        file
    }

    /// Enables TLS with this certificate from the next start.
    pub fn certify(&self, certificate: &str, key: &str) {
        let certificate = self.keep("server.pem", certificate);
        let key = self.keep("server.key", key);
        let (certificate, key) = (certificate.display(), key.display());
        self.set(&format!(
            "ssl = on\nssl_cert_file = '{certificate}'\nssl_key_file = '{key}'\n"
        ));
    }

    /// Requires client certificates of this authority from the next start.
    pub fn demand_certificates(&self, roots: &str) {
        let roots = self.keep("clients.pem", roots);
        self.set(&format!("ssl_ca_file = '{}'\n", roots.display()));
        let file = self.data().join("pg_hba.conf");
        fs::write(file, "hostssl all all all cert\n").expect("write who may connect");
    }

    /// Returns the URL of the database.
    pub fn url(&self) -> String {
        self.url_of("postgres")
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

    /// Returns whether a client has sent bytes that the server has not read, as the kernel counts them.
    pub fn has_unread_bytes(&self) -> bool {
        let sockets = fs::read_to_string("/proc/net/tcp").expect("the sockets of this machine");
        let local = format!("0100007F:{:04X}", self.port());
        sockets.lines().any(|line| {
            let fields: Vec<_> = line.split_whitespace().collect();
            fields.len() > 4
                && fields[1] == local
                && fields[2] != "00000000:0000"
                && !fields[4].ends_with(":00000000")
        })
    }
}

impl Default for Cluster {
    fn default() -> Cluster {
        Cluster::new()
    }
}

impl Deref for Cluster {
    type Target = Server;

    fn deref(&self) -> &Server {
        &self.0
    }
}
