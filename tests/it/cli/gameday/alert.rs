//! A rehearsal waits for an alert of Prometheus.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::thread;

use redrive_tests::TestDatabase;

use super::redrive;

/// Answers like Prometheus: first with a pending alert about the queue, then with one that fires.
fn prometheus(test: &TestDatabase) -> (String, thread::JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    let mut client = test.client();
    let serve = move || {
        for state in ["pending", "firing"] {
            let (mut stream, _) = listener.accept().expect("a question");
            let mut request = Vec::new();
            while !request.ends_with(b"\r\n\r\n") {
                let mut byte = [0];
                stream.read_exact(&mut byte).expect("a request");
                request.extend(byte);
            }
            assert!(request.starts_with(b"GET /prom/api/v1/alerts HTTP/1.0\r\n"));
            let query = "SELECT min(queue) FROM redrive.dead_letters WHERE queue LIKE 'gameday-%'";
            let queue: String = client.query_one(query, &[]).unwrap().get(0);
            let body = serde_json::json!({ "status": "success", "data": { "alerts": [
                { "labels": { "alertname": "OtherQueue", "queue": "orders" }, "state": "firing" },
                { "labels": { "alertname": "DeadLetters", "queue": queue }, "state": state },
            ] } });
            write!(stream, "HTTP/1.0 200 OK\r\n\r\n{body}").expect("an answer");
        }
    };
    (format!("http://{address}/prom"), thread::spawn(serve))
}

#[test]
fn a_rehearsal_waits_until_an_alert_about_its_queue_fires() {
    let test = TestDatabase::migrated();
    let (url, server) = prometheus(&test);
    let played = redrive(
        &test,
        &["gameday", "--jobs", "2", "--prometheus", &url, "--yes"],
    )
    .exits_with(0);
    assert!(
        played.out.contains("DeadLetters fires for the queue"),
        "{}",
        played.out
    );
    server.join().expect("the server");
}

#[test]
fn an_alert_that_does_not_fire_in_time_is_a_failure_of_the_rehearsal() {
    let test = TestDatabase::migrated();
    let played = redrive(
        &test,
        &[
            "gameday",
            "--jobs",
            "2",
            "--prometheus",
            "http://127.0.0.1:1",
            "--alert-within",
            "0s",
            "--yes",
        ],
    )
    .exits_with(1);
    for text in ["failed: none fired within", "2 died, 2 recovered, 0 left"] {
        assert!(played.out.contains(text), "{}", played.out);
    }
}
