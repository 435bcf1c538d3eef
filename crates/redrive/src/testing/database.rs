//! Databases for single tests, on a server that the process starts for them.

use std::env;
use std::sync::PoisonError;

use uuid::Uuid;

use crate::db::database::{Database, connect};
use crate::db::migrate::{all, in_transaction};
use crate::db::url::ConnectOptions;
use crate::error::{Error, Result};
use crate::sync::Mutex;
use crate::testing::server::Server;

/// The variable with the URL of a server to use instead of a new one.
const SERVER: &str = "REDRIVE_TEST_DATABASE_URL";

/// The server of this process.
static STARTED: Mutex<Option<Server>> = Mutex::new(None);

/// A new PostgreSQL database with the schema of redrive, for one test, which is dropped at its end.
///
/// The first one starts a PostgreSQL server, in about two seconds; all others of the process share it, in about a tenth
/// of a second each. The server ends with the process, also after a kill. It has only a socket, in a temporary folder that
/// no other user can enter, and skips what protects data from crashes. As root, it runs as `postgres` or `nobody`.
///
/// Its programs come from the folder in the variable `REDRIVE_POSTGRES_BIN`, or from `PATH` or `/usr/lib/postgresql`.
/// If `REDRIVE_TEST_DATABASE_URL` has the URL of a role that may create databases, its server is used instead.
///
/// ```
/// use redrive::testing::TestDatabase;
/// use redrive::{NewJob, Queue, Worker};
/// use std::time::Duration;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let test = TestDatabase::new()?;
/// let mails = Queue::new(test.db(), "mails")?;
/// mails.enqueue_job(NewJob::raw("mail", "{}")?)?;
/// let worker = Worker::builder(&mails).handle_kind("mail", |_| Ok(())).start()?;
/// assert!(worker.drain(Duration::from_secs(60))?);
/// assert_eq!(worker.stop(Duration::from_secs(10))?.stats.done, 1);
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct TestDatabase {
    name: String,
    url: String,
    server: String,
    db: Database,
}

impl TestDatabase {
    /// Creates a database, and starts the server if there is none.
    ///
    /// # Errors
    /// If no PostgreSQL server is installed or it does not start; the message says what to do.
    pub fn new() -> Result<TestDatabase> {
        let server = server()?;
        let name = format!("redrive_test_{}", Uuid::new_v4().simple());
        let url = url_of(&server, &name);
        run(&server, &format!("CREATE DATABASE {name}"))?;
        let db = connect(&url)?;
        // The databases of a new server have the schema already.
        db.migrate()?;
        Ok(TestDatabase {
            name,
            url,
            server,
            db,
        })
    }

    /// Returns a handle of the database.
    pub fn db(&self) -> &Database {
        &self.db
    }

    /// Returns the URL of the database, for a client of your own or for the program that you test.
    pub fn url(&self) -> &str {
        &self.url
    }
}

impl Drop for TestDatabase {
    fn drop(&mut self) {
        // Sessions that the test left are ended. Without the server, nothing is left to drop.
        _ = run(
            &self.server,
            &format!("DROP DATABASE IF EXISTS {} WITH (FORCE)", self.name),
        );
    }
}

/// Returns the URL of the server that is given or started.
fn server() -> Result<String> {
    if let Some(url) = env::var(SERVER).ok().filter(|url| !url.is_empty()) {
        return Ok(url);
    }
    let mut started = STARTED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(server) = &*started {
        return Ok(server.url.clone());
    }
    let server = Server::start()?;
    // Each new database is a copy of this one.
    let schema = in_transaction(&all());
    run(&url_of(&server.url, "template1"), &schema)?;
    Ok(started.insert(server).url.clone())
}

fn run(url: &str, sql: &str) -> Result<()> {
    let options: ConnectOptions = url.parse()?;
    let run = options.connect()?.batch_execute(sql);
    run.map_err(|error| Error::from_setup("prepare a database for a test", error))
}

/// Returns the URL of the same server with another database: an option, which overrides the one in the path.
fn url_of(server: &str, database: &str) -> String {
    let separator = if server.contains('?') { '&' } else { '?' };
    format!("{server}{separator}dbname={database}")
}
