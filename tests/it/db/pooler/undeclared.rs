//! A pooler that was not declared: the library finds it and leaves nothing on its connections. A wrong
//! declaration is an error that names the right one.

use redrive_tests::prelude::*;

use super::{CONNECTIONS, PooledDatabase, redrive, well};

#[test]
fn ten_starts_without_a_declaration_leave_every_server_connection_as_it_was() {
    // PgBouncer refuses unknown startup options, or ignores them if it is told so.
    for settings in ["", "ignore_startup_parameters = options\n"] {
        let pooled = PooledDatabase::of(TestDatabase::migrated(), CONNECTIONS, settings);
        for start in 1..=10 {
            let db = redrive::connect(pooled.url()).unwrap();
            let queue = Queue::new(&db, "orders").unwrap();
            let worker = willing(&queue);
            queue.enqueue_many(&Order::up_to(3)).unwrap();
            assert_eq!(finish(&queue, worker).stats.done, 3, "{start}: {settings}");
            well(&redrive(pooled.url(), &["stats"]));
            pooled.nothing_is_left();
        }
    }
}

#[test]
fn a_connection_without_a_pooler_is_recognized_and_notified() {
    let test = TestDatabase::migrated();
    let separator = if test.url().contains('?') { '&' } else { '?' };
    // Also with startup options of the user's own.
    for url in [
        test.url().to_owned(),
        format!("{}{separator}options=-c%20work_mem%3D5MB", test.url()),
    ] {
        let db = redrive::connect(&url).unwrap();
        let queue = Queue::new(&db, "orders").unwrap();
        let worker = willing(&queue);
        wait_until("the worker to listen", SOON, || {
            let listening = "SELECT count(*) > 0 FROM pg_stat_activity \
                             WHERE datname = current_database() AND query LIKE 'LISTEN%'";
            test.client().ask(listening, &[])
        });
        stop(worker);
    }
}

#[test]
fn the_error_for_a_pooler_declared_as_private_names_the_setting() {
    // One connection that all clients share.
    let pooled = PooledDatabase::of(TestDatabase::migrated(), 1, "");
    let wrong = ["--pooler", "session", "stats"];
    well(&redrive(pooled.url(), &wrong));
    let output = redrive(pooled.url(), &wrong);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{said}");
    has(&said, "--pooler transaction");
    has(&said, "Pooler::Transaction");
    has(&said, "already exists");
    // Only the command line reads the environment.
    assert!(!said.contains("REDRIVE_"), "{said}");
    // A client that declares the pooler works beside one that does not.
    let arguments = ["--pooler", "transaction", "stats"];
    well(&redrive(pooled.url(), &arguments));
}
