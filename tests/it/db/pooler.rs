//! A pooler in transaction mode: PgBouncer between the library and the server.
//!
//! Everything works through it, and nothing is left on a connection between transactions.

mod jobs;
mod operation;
mod undeclared;

use postgres::SimpleQueryMessage;
use redrive::Pooler;
use redrive_servers::PgBouncer;
use redrive_tests::prelude::*;

use crate::worker_process::program;

/// The server connections that a test shares.
const CONNECTIONS: u32 = 2;

/// A database behind a PgBouncer, which is dropped first with its clients.
struct PooledDatabase {
    bouncer: PgBouncer,
    test: TestDatabase,
}

impl PooledDatabase {
    fn new() -> PooledDatabase {
        PooledDatabase::of(TestDatabase::migrated(), CONNECTIONS, "")
    }

    /// A pooler with this many connections to the server, and these lines in its settings.
    fn of(test: TestDatabase, connections: u32, settings: &str) -> PooledDatabase {
        let bouncer = PgBouncer::before(test.url(), connections, settings);
        PooledDatabase { bouncer, test }
    }

    fn url(&self) -> &str {
        self.bouncer.url()
    }

    /// Opens a new handle that declares the pooler.
    fn open(&self) -> Database {
        let builder = Database::builder(self.url()).pooler(Pooler::Transaction);
        builder.open().unwrap()
    }

    fn queue(&self) -> Queue {
        Queue::new(&self.open(), "orders").unwrap()
    }

    /// Opens a plain connection through PgBouncer.
    fn client(&self) -> Client {
        Client::connect(self.url(), NoTls).unwrap()
    }

    /// Returns a number from the server, without the pooler.
    fn number(&self, asked: &str) -> i64 {
        self.test.client().ask(asked, &[])
    }

    /// Fails unless every server connection is clean. Checks all of them in concurrent transactions.
    #[track_caller]
    fn nothing_is_left(&self) {
        let mut clients: Vec<Client> = (0..CONNECTIONS).map(|_| self.client()).collect();
        for client in &mut clients {
            client.sql("BEGIN");
        }
        for client in &mut clients {
            assert_eq!(left(client), [""; 0]);
        }
    }
}

/// Returns the state left on the server connection of a transaction.
fn left(client: &mut Client) -> Vec<String> {
    // PgBouncer sets what its clients ask for.
    const ASKED: &str = "
        SELECT 'statement ' || statement FROM pg_prepared_statements
        UNION ALL SELECT 'setting ' || name || ' = ' || setting FROM pg_settings
            WHERE source = 'session' AND name NOT IN ('application_name', 'client_encoding',
                'DateStyle', 'TimeZone', 'standard_conforming_strings', 'IntervalStyle')
        UNION ALL SELECT 'listens to ' || channel FROM pg_listening_channels() AS channel
        UNION ALL SELECT 'lock ' || objid::text FROM pg_locks
            WHERE pid = pg_backend_pid() AND locktype = 'advisory'
        UNION ALL SELECT 'temporary tables' WHERE pg_my_temp_schema() <> 0";
    let answer = client.simple_query(ASKED).unwrap();
    let rows = answer.iter().filter_map(|message| match message {
        SimpleQueryMessage::Row(row) => Some(row.get(0).unwrap_or_default().to_owned()),
        SimpleQueryMessage::CommandComplete(_) | SimpleQueryMessage::RowDescription(_) | _ => None,
    });
    rows.collect()
}

/// Runs `redrive` as a process.
pub(super) fn redrive(url: &str, arguments: &[&str]) -> Output {
    let output = program(url).args(arguments).output();
    output.expect("run redrive")
}

#[track_caller]
fn well(output: &Output) -> String {
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {said}", output.status);
    String::from_utf8_lossy(&output.stdout).into_owned()
}
