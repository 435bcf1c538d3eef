//! Deadlines on every kind of connection, when the server stops and its connections stay open.

use std::time::{Duration, Instant};

use redrive::r2d2::Pool;
use redrive::r2d2_postgres::PostgresConnectionManager;
use redrive::{Database, Queue};
use redrive_tests::{Cluster, Order, SOON, eventually};

use super::tls::{authority, params, signed};

/// The deadline of a call.
const CALL: Duration = Duration::from_millis(500);

/// Freezes the server and expects a call on an open connection to end at its deadline.
fn call_ends_at_its_deadline(cluster: &Cluster, db: &Database) {
    let orders = Queue::new(db, "orders").unwrap();
    eventually("an enqueue", || orders.enqueue(&Order { number: 1 }));
    let silence = cluster.silence();
    let begun = Instant::now();
    let error = orders.enqueue(&Order { number: 2 }).unwrap_err();
    assert!(error.is_unavailable(), "{error:?}");
    assert!(error.to_string().contains("did not answer"), "{error:?}");
    assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
    drop(silence);
    eventually("an enqueue", || orders.enqueue(&Order { number: 3 }));
}

fn open(address: &str) -> Database {
    eventually("a connection", || {
        Database::builder(address).call_timeout(CALL).open()
    })
}

#[test]
fn a_call_over_tcp_ends_at_its_deadline() {
    let cluster = Cluster::new();
    cluster.start();
    cluster.migrate();
    call_ends_at_its_deadline(&cluster, &open(&cluster.url()));
}

#[test]
fn an_encrypted_call_ends_at_its_deadline() {
    let ours = authority("ours");
    let cluster = Cluster::new();
    let roots = cluster.keep("roots.pem", &ours.pem());
    let server = signed(&params(&["localhost"]), &ours);
    cluster.certify(&server.certificate, &server.key);
    cluster.start();
    cluster.migrate();
    let db = open(&format!(
        "host=localhost port={} user=postgres dbname=postgres sslmode=verify-full sslrootcert={}",
        cluster.port(),
        roots.display()
    ));
    call_ends_at_its_deadline(&cluster, &db);
}

#[test]
fn a_call_over_a_unix_socket_ends_at_its_deadline() {
    // Relative to the data directory.
    let cluster = Cluster::with("unix_socket_directories = '..'");
    let marker = cluster.keep("marker", "");
    let folder = marker.parent().unwrap();
    cluster.start();
    cluster.migrate();
    let db = open(&format!(
        "host={} port={} user=postgres dbname=postgres",
        folder.display(),
        cluster.port()
    ));
    call_ends_at_its_deadline(&cluster, &db);
}

#[test]
fn a_call_over_the_pool_of_the_user_ends_at_its_deadline() {
    let cluster = Cluster::new();
    cluster.start();
    cluster.migrate();
    let config = cluster.url().parse().unwrap();
    let manager = PostgresConnectionManager::new(config, postgres::NoTls);
    let pool = Pool::builder().max_size(2).build(manager).unwrap();
    let orders = Queue::new(&Database::from_pool(pool), "orders").unwrap();
    eventually("an enqueue", || orders.enqueue(&Order { number: 1 }));
    let silence = cluster.silence();
    // The usual deadline of a call: 15 seconds.
    let error = orders.enqueue(&Order { number: 2 }).unwrap_err();
    assert!(error.is_unavailable(), "{error:?}");
    drop(silence);
}
