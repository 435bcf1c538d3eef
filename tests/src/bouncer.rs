//! A PgBouncer for one test, in transaction mode, with few enough server connections that clients
//! share them.

use postgres::{Client, NoTls};
use redrive::{Database, DatabaseBuilder, Pooler, Queue};
use redrive_servers::PgBouncer;

/// A running PgBouncer; killed when dropped.
#[derive(Debug)]
pub struct Bouncer(PgBouncer);

impl Bouncer {
    /// Starts one in front of the server of this URL, with this many connections to it.
    pub fn before(url: &str, connections: u32) -> Bouncer {
        Bouncer::with(url, connections, "")
    }

    /// Starts one with these lines in its settings.
    pub fn with(url: &str, connections: u32, settings: &str) -> Bouncer {
        Bouncer(PgBouncer::before(url, connections, settings))
    }

    /// Returns the URL of the same database through PgBouncer.
    pub fn url(&self) -> &str {
        self.0.url()
    }

    /// Returns the builder of a handle that declares the pooler.
    pub fn builder(&self) -> DatabaseBuilder {
        Database::builder(self.url()).pooler(Pooler::Transaction)
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
        Client::connect(self.url(), NoTls).expect("connect through PgBouncer")
    }
}
