//! A database for each test, copied from a migrated template and dropped at the end.
//!
//! The first test process creates the template, once per server and content of the migrations; the
//! others wait for an advisory lock.

use std::env;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Mutex, PoisonError};
use std::{fmt, thread};

use postgres::{Client, NoTls};
use redrive::{Database, JobId, Queue};
use uuid::Uuid;

use crate::read::scalar;
use crate::statement::Sql as _;
use crate::wait::{SOON, wait_until};
use crate::work::letters;

/// The URL of the test server.
const SERVER: &str = "REDRIVE_TEST_DATABASE_URL";
/// If set, a failing test keeps its database and prints its name.
const KEEP: &str = "REDRIVE_TEST_KEEP";
/// If set, a migrated database that is copied instead of the template.
const TEMPLATE: &str = "REDRIVE_TEST_TEMPLATE";
/// The advisory lock for creating the template.
const TEMPLATE_LOCK: i64 = 7_304_114_902;

/// The superuser's URL of the test server.
pub fn server_url() -> String {
    env::var(SERVER).unwrap_or_else(|_| {
        panic!("run `cargo xtask test`, or set {SERVER} to a PostgreSQL superuser's URL")
    })
}

/// The database of one test, dropped at its end.
pub struct TestDatabase {
    name: String,
    url: String,
    /// The session that created it and drops it.
    server: Mutex<Client>,
}

impl TestDatabase {
    /// A database with the schema of this library in it.
    pub fn migrated() -> TestDatabase {
        let mut server = connect(&server_url());
        let template = template(&mut server);
        // Files are copied in two thirds of the time that it takes to write all pages to the WAL, and
        // with what the first session would have to collect. Older servers have no other way.
        let asked = "SELECT current_setting('server_version_num')::bigint";
        let strategy = match scalar(&mut server, asked) {
            ..150_000 => "",
            _ => " STRATEGY FILE_COPY",
        };
        TestDatabase::create(server, &format!("TEMPLATE {template}{strategy}"))
    }

    /// A migrated database and its queue `orders`.
    pub fn with_orders() -> (TestDatabase, Queue) {
        let test = TestDatabase::migrated();
        let queue = test.queue("orders");
        (test, queue)
    }

    /// A migrated database, its queue `orders` and a plain connection.
    pub fn with_session() -> (TestDatabase, Queue, Client) {
        let (test, queue) = TestDatabase::with_orders();
        let client = test.client();
        (test, queue, client)
    }

    /// A migrated database, its queue `orders` and open letters of that, which died in the order of their ids.
    #[track_caller]
    pub fn with_letters(count: i64) -> (TestDatabase, Queue, Vec<JobId>) {
        let (test, queue) = TestDatabase::with_orders();
        let ids = letters(&queue, count);
        (test, queue, ids)
    }

    /// A migrated database and a plain connection.
    pub fn with_client() -> (TestDatabase, Client) {
        let test = TestDatabase::migrated();
        let client = test.client();
        (test, client)
    }

    /// A migrated database and a handle.
    pub fn opened() -> (TestDatabase, Database) {
        let test = TestDatabase::migrated();
        let db = test.open();
        (test, db)
    }

    /// A migrated database, a handle and a plain connection.
    pub fn with_handle() -> (TestDatabase, Database, Client) {
        let (test, db) = TestDatabase::opened();
        let client = test.client();
        (test, db, client)
    }

    /// A database without anything in it.
    pub fn empty() -> TestDatabase {
        TestDatabase::create(connect(&server_url()), "TEMPLATE template0")
    }

    /// A database without anything in it, in another encoding than UTF-8.
    pub fn with_encoding(encoding: &str) -> TestDatabase {
        let how = format!("TEMPLATE template0 ENCODING '{encoding}' LC_COLLATE 'C' LC_CTYPE 'C'");
        TestDatabase::create(connect(&server_url()), &how)
    }

    fn create(mut server: Client, how: &str) -> TestDatabase {
        // The reaper waits for one lease after the start of the server.
        let is_old = "SELECT clock_timestamp() - pg_postmaster_start_time() > interval '3 seconds'";
        wait_until("the server to be old enough", SOON, || {
            server.ask(is_old, &[])
        });
        let name = format!("redrive_test_{}", Uuid::new_v4().simple());
        server.sql(&format!("CREATE DATABASE {name} {how}"));
        let url = url_of(&name);
        TestDatabase {
            name,
            url,
            server: Mutex::new(server),
        }
    }

    /// Returns the URL.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Returns the name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Opens a new handle with a new pool.
    pub fn open(&self) -> Database {
        redrive::connect(&self.url).expect("connect to the database of the test")
    }

    /// Returns a queue on a new handle.
    pub fn queue(&self, name: &str) -> Queue {
        Queue::new(&self.open(), name).expect("a valid name")
    }

    /// Opens a plain connection.
    pub fn client(&self) -> Client {
        connect(&self.url)
    }

    /// Runs statements in a transaction of a new connection, which has their locks until it ends.
    #[track_caller]
    pub fn begins(&self, statements: &str) -> Client {
        let mut client = self.client();
        client.sql(&format!("BEGIN; {statements}"));
        client
    }

    /// Locks a letter until this connection ends its transaction.
    #[track_caller]
    pub fn locks(&self, letter: JobId) -> Client {
        self.begins(&format!(
            "SELECT FROM redrive.dead_letters WHERE id = {letter} FOR UPDATE"
        ))
    }

    /// Runs statements on a new connection.
    #[track_caller]
    pub fn sql(&self, statements: &str) {
        self.client().sql(statements);
    }

    /// Runs statements of PL/pgSQL before each such change of a row, such as `INSERT ON redrive.jobs`.
    #[track_caller]
    pub fn before(&self, change: &str, statements: &str) {
        self.sql(&format!(
            "CREATE OR REPLACE FUNCTION public.for_test() RETURNS trigger LANGUAGE plpgsql AS $$
             BEGIN {statements}; RETURN NEW; END $$;
             CREATE OR REPLACE TRIGGER for_test BEFORE {change}
                 FOR EACH ROW EXECUTE FUNCTION public.for_test()"
        ));
    }

    /// Sets a parameter for later sessions of the database.
    #[track_caller]
    pub fn sets(&self, parameter: &str) {
        self.sql(&format!("ALTER DATABASE {} SET {parameter}", self.name));
    }

    /// Returns the number of rows of a table, or of those that meet its condition.
    #[track_caller]
    pub fn count(&self, table: &str) -> i64 {
        self.client().count(table)
    }

    /// Waits until this many rows of a table exist, or meet its condition.
    #[track_caller]
    pub fn reaches(&self, table: &str, rows: i64) {
        self.client().reaches(table, rows);
    }

    /// Returns the number of ready jobs to which nothing was charged.
    #[track_caller]
    pub fn untouched(&self) -> i64 {
        self.count("jobs WHERE coalesce((meta).attempt, (meta).refunds, (meta).crashes) IS NULL")
    }

    /// Makes all delayed jobs due, and wakes the workers of `orders`.
    #[track_caller]
    pub fn all_due(&self) {
        self.sql("UPDATE redrive.jobs_delayed SET run_at = clock_timestamp(); NOTIFY redrive_ready, 'orders'");
    }
}

impl fmt::Debug for TestDatabase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("TestDatabase").field(&self.name).finish()
    }
}

impl Drop for TestDatabase {
    fn drop(&mut self) {
        if thread::panicking() && env::var_os(KEEP).is_some() {
            #[expect(clippy::print_stderr, reason = "pooling is enabled")]
            {
                eprintln!("the database of this test is kept: {}", self.url);
            }
            return;
        }
        let server = self.server.get_mut();
        let server = server.unwrap_or_else(PoisonError::into_inner);
        let dropped = server.batch_execute(&format!("DROP DATABASE {} WITH (FORCE)", self.name));
        if !thread::panicking() {
            dropped.expect("drop the database of the test");
        }
    }
}

/// Creates the migrated template if necessary and returns its name.
fn template(server: &mut Client) -> String {
    if let Ok(name) = env::var(TEMPLATE) {
        return name;
    }
    let mut hasher = DefaultHasher::new();
    for script in redrive::migrate::all() {
        script.sql.hash(&mut hasher);
    }
    let name = format!("redrive_template_{:016x}", hasher.finish());
    if is_finished(server, &name) {
        return name;
    }
    server.change("SELECT pg_advisory_lock($1)", &[&TEMPLATE_LOCK]);
    if !is_finished(server, &name) {
        make_template(server, &name);
    }
    server.change("SELECT pg_advisory_unlock($1)", &[&TEMPLATE_LOCK]);
    name
}

/// Whether the template is complete: the mark is set last.
fn is_finished(server: &mut Client, name: &str) -> bool {
    let asked = "SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1 AND datistemplate)";
    server.ask(asked, &[&name])
}

fn make_template(server: &mut Client, name: &str) {
    // A killed process may have left an incomplete one.
    server.sql(&format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)"));
    server.sql(&format!("CREATE DATABASE {name} TEMPLATE template0"));
    let migrated = redrive::connect(&url_of(name)).and_then(|db| db.migrate());
    migrated.expect("migrate the template");
    server.sql(&format!("ALTER DATABASE {name} ALLOW_CONNECTIONS false"));
    wait_until("the template's connections to end", SOON, || {
        let ended = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1";
        server.column::<bool>(ended, &[&name]).is_empty()
    });
    server.sql(&format!("ALTER DATABASE {name} IS_TEMPLATE true"));
}

/// Returns the URL of the server with another database.
fn url_of(database: &str) -> String {
    let server = server_url();
    let (address, options) = server.split_once('?').unwrap_or((&server, ""));
    let (scheme, rest) = address
        .split_once("://")
        .expect("a URL of the form postgres://…");
    let (host, _) = rest.split_once('/').unwrap_or((rest, ""));
    let separator = if options.is_empty() { "" } else { "?" };
    format!("{scheme}://{host}/{database}{separator}{options}")
}

#[track_caller]
fn connect(url: &str) -> Client {
    Client::connect(url, NoTls).expect("connect to the PostgreSQL server of the tests")
}
