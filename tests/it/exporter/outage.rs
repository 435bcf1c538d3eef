//! The exporter while the database is stopped, silent, locked or slow: every scrape is answered in
//! time, with at most two backends, and the first scrape after the outage succeeds.

use redrive_tests::prelude::*;

use super::{PROGRAM, backends, up};

/// The scrape timeout of Prometheus, in seconds.
const TIMEOUT: u32 = 2;

#[test]
fn the_exporter_starts_before_the_database_and_outlives_it() {
    let cluster = Cluster::new();
    let exporter = Exporter::start(PROGRAM, &cluster.url());
    let before = exporter.scrapes(5, TIMEOUT);
    assert!(before.iter().all(|asked| !asked.is_up()));
    assert_eq!(exporter.get("/-/healthy").status, 200);
    assert_eq!(exporter.get("/-/ready").status, 503);

    cluster.start();
    cluster.migrate();
    up(&exporter);
    assert_eq!(exporter.get("/-/ready").status, 200);

    for _ in 0..2 {
        cluster.stop();
        assert!(!exporter.scrape(TIMEOUT).is_up());
        cluster.start();
        up(&exporter);
    }
    let log = exporter.log();
    has(&log, "could not connect to the database");
}

#[test]
fn a_silent_server_receives_at_most_two_connections() {
    let cluster = Cluster::new();
    cluster.start();
    cluster.migrate();
    let exporter = Exporter::start(PROGRAM, &cluster.url());
    up(&exporter);
    let silence = cluster.freeze();
    let scrape = |count| {
        let answers = exporter.scrapes(count, TIMEOUT);
        assert!(answers.iter().all(|asked| !asked.is_up()) || count > 20);
        let connections = exporter.connections_to(cluster.port());
        assert!(connections <= 2, "{connections} connections");
    };
    // The first connection is closed, and the next one receives no reply either.
    wait_until("a connection without a reply", SOON, || {
        scrape(20);
        exporter.log().contains("did not answer")
    });
    // Waiting scrapes do not block others.
    scrape(200);
    assert_eq!(exporter.get("/-/healthy").status, 200);
    let most = exporter.megabytes();
    assert!(most < 50, "{most} MB");

    drop(silence);
    up(&exporter);
    // The abandoned connection ends, and one is left.
    wait_until("one connection to be left", SOON, || {
        exporter.connections_to(cluster.port()) == 1
    });
    assert!(exporter.scrape(TIMEOUT).is_up());
}

#[test]
fn silent_sessions_over_a_unix_socket_are_at_most_two() {
    // Relative to the data directory.
    let cluster = Cluster::with("unix_socket_directories = '..'");
    cluster.start();
    cluster.migrate();
    let (folder, port) = (cluster.folder().display(), cluster.port());
    let address = format!("host={folder} port={port} user=postgres dbname=postgres");
    let exporter = Exporter::start(PROGRAM, &address);
    let mut client = cluster.client();
    // Nothing ends the first one, so another one takes its place.
    let freeze = |_| {
        wait_until("another session", SOON, || exporter.scrape(TIMEOUT).is_up());
        Frozen::stop(backends(&mut client))
    };
    let silence: Vec<Frozen> = (0..2).map(freeze).collect();
    wait_until("the exporter to have no more sessions", SOON, || {
        exporter.scrape(1);
        exporter.log().contains("connection to the database")
    });
    assert_eq!(backends(&mut client).len(), 2);
    drop(silence);
    up(&exporter);
}
