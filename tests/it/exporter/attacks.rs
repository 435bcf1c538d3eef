//! The exporter under attack from the network: it keeps serving, in little memory.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use redrive_tests::prelude::*;

use super::{PROGRAM, serving, up};

/// The peak memory in megabytes.
const MOST_MEGABYTES: u64 = 50;

/// Checks that the exporter serves and has not used too much memory.
#[track_caller]
fn unharmed(exporter: &Exporter) {
    assert!(exporter.scrape(10).is_up());
    let most = exporter.megabytes();
    assert!(most < MOST_MEGABYTES, "{most} MB");
}

#[test]
fn five_hundred_idle_sockets_do_not_block_a_scrape() {
    let (_test, exporter) = serving();
    let mut idle: Vec<TcpStream> = (0..500).map(|_| exporter.connect()).collect();
    unharmed(&exporter);
    // A silent client is disconnected.
    for stream in &mut idle {
        assert_eq!(stream.read(&mut [0]).unwrap_or(0), 0);
    }
    wait_until("the threads to end", SOON, || {
        exporter.threads("connection") == 0
    });
    unharmed(&exporter);
}

#[test]
fn a_request_head_without_end_is_rejected() {
    let (_test, exporter) = serving();
    let mut stream = exporter.connect();
    stream
        .write_all(b"GET /metrics HTTP/1.1\r\nX-Long: ")
        .unwrap();
    let piece = vec![b'x'; 64 << 10];
    for _ in 0..48 * 16 {
        // The exporter may close the connection earlier.
        if stream.write_all(&piece).is_err() {
            break;
        }
    }
    drop(stream);
    unharmed(&exporter);

    let many = "X: y\r\n".repeat(4 << 10);
    let asked = exporter.ask(&format!("GET /metrics HTTP/1.1\r\n{many}\r\n"));
    assert_eq!(asked.status, 431);
    unharmed(&exporter);
}

#[test]
fn more_clients_than_descriptors_do_not_block_a_scrape() {
    let test = TestDatabase::migrated();
    let mut limited = Command::new("sh");
    limited.args(["-c", "ulimit -n 64 && exec \"$0\" \"$@\"", PROGRAM]);
    limited.env("DATABASE_URL", test.url());
    let exporter = Exporter::of(limited);
    up(&exporter);
    for _ in 0..3 {
        let _held: Vec<TcpStream> = (0..120).map(|_| exporter.connect()).collect();
        unharmed(&exporter);
    }
}

#[test]
fn a_part_of_a_request_is_answered_in_time_and_blocks_no_scrape() {
    let (_test, exporter) = serving();
    let mut slow: Vec<TcpStream> = (0..100).map(|_| exporter.connect()).collect();
    for stream in &mut slow {
        stream.write_all(b"GET /metrics HT").unwrap();
    }
    unharmed(&exporter);
    for mut stream in slow {
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        has(answer, " 408 ");
    }
}
