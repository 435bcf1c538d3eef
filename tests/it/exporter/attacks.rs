//! The exporter under attack from the network: it keeps serving, in little memory.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpStream};

use redrive_tests::prelude::*;

use super::{PROGRAM, serving, up};

/// The peak memory in megabytes.
const MOST_MEGABYTES: u64 = 50;

/// Checks that the exporter serves and has not used too much memory.
#[track_caller]
fn unharmed(exporter: &Exporter) {
    assert!(exporter.scrape(10).is_up());
    let (_, most) = exporter.megabytes();
    assert!(most < MOST_MEGABYTES, "{most} MB");
}

#[test]
fn five_hundred_idle_sockets_do_not_block_a_scrape() {
    let (_test, exporter) = serving();
    let mut idle: Vec<TcpStream> = (0..500).map(|_| exporter.connect()).collect();
    unharmed(&exporter);
    // A silent client has no thread. It is disconnected.
    for stream in &mut idle {
        assert_eq!(stream.read(&mut [0]).unwrap_or(0), 0);
    }
    wait_until("the threads to end", SOON, || {
        exporter.threads("connection") == 0
    });
    unharmed(&exporter);
}

#[test]
fn a_flood_from_one_address_keeps_no_other_out() {
    let (_test, exporter) = serving();
    let attacker = Ipv4Addr::new(127, 0, 0, 2);
    let mut slow: Vec<TcpStream> = (0..600).map(|_| exporter.connect_from(attacker)).collect();
    for (number, stream) in slow.iter_mut().enumerate() {
        let request = match number % 2 {
            0 => &b"GET /metrics HT"[..],
            // It never reads the response.
            _ => b"GET /metrics HTTP/1.1\r\n\r\n",
        };
        // Some were disconnected.
        drop(stream.write_all(request));
    }
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                drop(exporter.connect_from(attacker));
            }
        });
        for _ in 0..100 {
            assert!(exporter.scrape(10).is_up());
        }
        is_over.store(true, Ordering::Relaxed);
    });
    unharmed(&exporter);
}

#[test]
fn the_exporter_survives_running_out_of_descriptors() {
    let test = TestDatabase::migrated();
    let exporter = Exporter::limited(PROGRAM, test.url(), 64);
    up(&exporter);
    for _ in 0..3 {
        let held: Vec<TcpStream> = (0..120).map(|_| exporter.connect()).collect();
        unharmed(&exporter);
        drop(held);
        wait_until("it to serve again", SOON, || exporter.scrape(10).is_up());
    }
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
