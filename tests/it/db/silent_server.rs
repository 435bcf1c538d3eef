//! Deadlines on every kind of connection, when the server stops and its connections stay open.

use std::io::Read as _;
use std::net::TcpListener;

use redrive::Pooler;
use redrive::r2d2::Pool;
use redrive::r2d2_postgres::PostgresConnectionManager;
use redrive_tests::prelude::*;

use super::tls::{authority, params, signed};

/// The deadline of a call.
const CALL: Duration = Duration::from_millis(500);

#[test]
fn a_call_on_a_connection_of_any_kind_ends_at_its_deadline() {
    let ours = authority("ours");
    // Relative to the data directory.
    let cluster = Cluster::with("unix_socket_directories = '..'");
    let roots = cluster.keep("roots.pem", &ours.pem());
    let folder = roots.parent().unwrap();
    let server = signed(&params(&["localhost"]), &ours);
    cluster.certify(&server.certificate, &server.key);
    cluster.start();
    cluster.migrate();
    let words = format!("port={} user=postgres dbname=postgres", cluster.port());
    let roots = format!("sslmode=verify-full sslrootcert={}", roots.display());
    let encrypted = format!("host=localhost {words} {roots}");
    let socket = format!("host={} {words}", folder.display());
    let builder = |address: &str| Database::builder(address).call_timeout(CALL);
    let handles = [cluster.url(), encrypted, socket]
        .map(|address| eventually("a connection", || builder(&address).open()));
    let manager = PostgresConnectionManager::new(cluster.url().parse().unwrap(), NoTls);
    let pool = Pool::builder().max_size(2).build(manager).unwrap();
    // Its deadline is the usual one.
    let pooled = Database::from_pool(pool, Pooler::Transaction);
    let queues = handles.map(|db| Queue::new(&db, "orders").unwrap());
    let of_the_user = Queue::new(&pooled, "orders").unwrap();
    let all = queues.iter().chain([&of_the_user]);
    for queue in all.clone() {
        eventually("an enqueue", || queue.enqueue(&Order { number: 1 }));
    }
    let silence = cluster.freeze();
    let refused = |queue: &Queue| {
        let error = queue.enqueue(&Order { number: 2 }).unwrap_err();
        assert!(error.is_unavailable(), "{error:?}");
        error.to_string()
    };
    thread::scope(|scope| {
        let own = scope.spawn(|| refused(&of_the_user));
        for queue in &queues {
            has(refused(queue), "did not answer within 500ms");
        }
        has(own.join().unwrap(), "within 15s");
    });
    drop(silence);
    for queue in all {
        eventually("an enqueue", || queue.enqueue(&Order { number: 3 }));
    }
}

#[test]
fn a_statement_of_a_handlers_transaction_ends_soon_after_the_deadline_of_its_job() {
    let cluster = Cluster::new();
    cluster.start();
    cluster.migrate();
    let db = Database::builder(&cluster.url()).call_timeout(Duration::from_secs(5));
    let queue = Queue::new(&db.open().unwrap(), "orders").unwrap();
    let (gate, (sent, ended)) = (kept::<Gate>(), mpsc::channel());
    let handler = move |_: &Job<Order>, tx: &mut Transaction<'_>| -> Result<(), Failure> {
        gate.pass();
        let answer = tx.batch_execute("SELECT 1");
        sent.send(answer.is_err()).unwrap();
        Ok(())
    };
    let builder = worker(&queue).deadline(Duration::from_secs(2));
    let worker = builder.handle(handler).started();
    queue.enqueue(&Order { number: 1 }).unwrap();
    gate.wait_for(1);
    let silence = cluster.freeze();
    gate.open();
    assert_eq!(ended.recv_timeout(SOON), Ok(true));
    drop((silence, worker));
}

#[test]
fn a_silent_host_leaves_the_next_one_its_share_of_an_attempt() {
    let cluster = Cluster::new();
    cluster.start();
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let ports = (silent.local_addr().unwrap().port(), cluster.port());
    let words = "user=postgres dbname=postgres sslmode=disable";
    let address = format!(
        "host=127.0.0.1,127.0.0.1 port={},{} {words}",
        ports.0, ports.1
    );
    let opened = || {
        let builder = Database::builder(&address);
        builder.connect_timeout(Duration::from_secs(2)).open()
    };
    eventually("a connection to the second host", opened);
}

#[test]
fn an_attempt_to_connect_to_a_silent_server_is_over_at_its_deadline() {
    let roots = TempFile::of(authority("ours").pem());
    for (host, mode) in [
        ("host", "disable"),
        ("host", "verify-full"),
        ("hostaddr", "verify-full"),
    ] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let words = format!("port={port} user=me sslmode={mode} sslrootcert={roots}");
        let address = format!("{host}=127.0.0.1 {words}");
        let opened = Database::builder(&address).connect_timeout(CALL).open();
        has(opened.unwrap_err(), "did not answer within 500ms");
        let (mut visitor, _) = listener.accept().unwrap();
        visitor.set_read_timeout(Some(SOON)).unwrap();
        let mut sent = Vec::new();
        visitor.read_to_end(&mut sent).expect("it is closed");
        let is_request = sent.len() == 8;
        assert_eq!(is_request, mode != "disable", "only the request for TLS");
    }
}
