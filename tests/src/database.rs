//! A database for each test, copied from a migrated template and dropped at the end.
//!
//! The template is made once for each server and content of the migrations, by whichever test
//! process comes first; the others wait for it under an advisory lock.

use std::env;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::thread;

use postgres::{Client, NoTls};
use redrive::{Database, Queue};
use uuid::Uuid;

use crate::bouncer::Bouncer;
use crate::wait::{SOON, wait_until};

/// Where the tests find their server.
const SERVER: &str = "REDRIVE_TEST_DATABASE_URL";
/// Set to anything, it makes a test that fails keep its database and tell its name.
const KEEP: &str = "REDRIVE_TEST_KEEP";
/// Set to anything, it puts a PgBouncer in transaction mode before the handles of every test.
const POOLER: &str = "REDRIVE_TEST_POOLER";
/// How many connections each of them has to the server.
const POOLED: u32 = 5;
/// The advisory lock of those who make the template: a number that only the tests use.
const TEMPLATE_LOCK: i64 = 7_304_114_902;

/// The superuser's URL of the test server.
pub fn server_url() -> String {
    env::var(SERVER).unwrap_or_else(|_| {
        panic!("run `cargo xtask test`, or set {SERVER} to a PostgreSQL superuser's URL")
    })
}

/// A database of a test's own; dropped with it.
#[derive(Debug)]
pub struct TestDatabase {
    name: String,
    url: String,
    /// What handles go through, where that was asked for.
    bouncer: Option<Bouncer>,
}

impl TestDatabase {
    /// A database with the schema of this library in it.
    pub fn migrated() -> TestDatabase {
        let mut server = connect(&server_url());
        let template = template(&mut server);
        TestDatabase::create(&mut server, &format!("TEMPLATE {template}"))
    }

    /// A database without anything in it.
    pub fn empty() -> TestDatabase {
        TestDatabase::create(&mut connect(&server_url()), "TEMPLATE template0")
    }

    fn create(server: &mut Client, how: &str) -> TestDatabase {
        // The reaper waits for a lease time after the start of the server.
        wait_until(
            "the server to be older than the shortest lease",
            SOON,
            || {
                let asked =
                    "SELECT clock_timestamp() - pg_postmaster_start_time() > interval '3 seconds'";
                server
                    .query_one(asked, &[])
                    .expect("ask for the age of the server")
                    .get(0)
            },
        );
        let name = format!("redrive_test_{}", Uuid::new_v4().simple());
        server
            .batch_execute(&format!("CREATE DATABASE {name} {how}"))
            .expect("create a database for the test");
        let url = url_of(&name);
        let bouncer = env::var_os(POOLER).map(|_| Bouncer::before(&url, POOLED));
        TestDatabase { name, url, bouncer }
    }

    /// Its URL.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// A new handle to it, with a pool of its own.
    pub fn open(&self) -> Database {
        match &self.bouncer {
            Some(bouncer) => bouncer.open(),
            None => redrive::connect(&self.url).expect("connect to the database of the test"),
        }
    }

    /// A queue in it, with a pool of its own.
    pub fn queue(&self, name: &str) -> Queue {
        Queue::new(&self.open(), name).expect("a good name")
    }

    /// A plain connection to it.
    pub fn client(&self) -> Client {
        connect(&self.url)
    }
}

impl Drop for TestDatabase {
    fn drop(&mut self) {
        if thread::panicking() && env::var_os(KEEP).is_some() {
            #[expect(clippy::print_stderr, reason = "somebody asked for it")]
            {
                eprintln!("the database of this test is kept: {}", self.url);
            }
            return;
        }
        let Ok(mut server) = Client::connect(&server_url(), NoTls) else {
            return;
        };
        let dropped = server.batch_execute(&format!("DROP DATABASE {} WITH (FORCE)", self.name));
        if !thread::panicking() {
            dropped.expect("drop the database of the test");
        }
    }
}

/// The name of the migrated template, which exists when this returns.
fn template(server: &mut Client) -> String {
    let mut hasher = DefaultHasher::new();
    redrive::migrate::print().hash(&mut hasher);
    let name = format!("redrive_template_{:016x}", hasher.finish());
    if is_finished(server, &name) {
        return name;
    }
    server
        .execute("SELECT pg_advisory_lock($1)", &[&TEMPLATE_LOCK])
        .expect("lock the template");
    if !is_finished(server, &name) {
        make_template(server, &name);
    }
    server
        .execute("SELECT pg_advisory_unlock($1)", &[&TEMPLATE_LOCK])
        .expect("unlock the template");
    name
}

/// Whether the template is there and complete: it is marked last.
fn is_finished(server: &mut Client, name: &str) -> bool {
    let asked = "SELECT FROM pg_database WHERE datname = $1 AND datistemplate";
    server
        .query_opt(asked, &[&name])
        .expect("look for the template")
        .is_some()
}

fn make_template(server: &mut Client, name: &str) {
    // Half of one may be there, from a process that was killed.
    server
        .batch_execute(&format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)"))
        .and_then(|()| server.batch_execute(&format!("CREATE DATABASE {name} TEMPLATE template0")))
        .expect("create the template");
    redrive::connect(&url_of(name))
        .and_then(|db| db.migrate())
        .expect("migrate the template");
    server
        .batch_execute(&format!("ALTER DATABASE {name} ALLOW_CONNECTIONS false"))
        .expect("close the template");
    wait_until("the template's connections to end", SOON, || {
        let ended = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1";
        server
            .query(ended, &[&name])
            .expect("end connections")
            .is_empty()
    });
    server
        .batch_execute(&format!("ALTER DATABASE {name} IS_TEMPLATE true"))
        .expect("mark the template");
}

/// The server's URL with another database in it.
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
