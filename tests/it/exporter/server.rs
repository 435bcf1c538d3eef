//! The exporter: its pages, its connection, its start and stop.

use std::net::{TcpListener, TcpStream};

use redrive_tests::prelude::*;

use super::{PROGRAM, backends, disconnect, printed, serving, up};

#[test]
fn every_page_of_the_exporter_responds() {
    let (_test, exporter) = serving();

    let metrics = exporter.get("/metrics");
    assert_eq!(metrics.status, 200);
    has(&metrics.head, "Content-Type: text/plain; version=0.0.4");
    has(&metrics.text, "# TYPE redrive_up gauge\n");
    let version = env!("CARGO_PKG_VERSION");
    let build = format!("redrive_exporter_build_info{{version=\"{version}\"}}");
    assert_eq!(metrics.value(&build), Some(1.0));

    let landing = exporter.get("/");
    assert_eq!(landing.status, 200);
    for page in ["/metrics", "/-/healthy", "/-/ready"] {
        has(&landing.text, format!("href=\"{page}\""));
    }
    assert_eq!(exporter.get("/-/healthy").status, 200);
    assert_eq!(exporter.get("/-/ready").status, 200);
    assert_eq!(exporter.get("/favicon.ico").status, 404);
    let posted = exporter.ask("POST /metrics HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello");
    assert_eq!(posted.status, 405);
    has(&posted.head, "Allow: GET, HEAD");
    let head = exporter.ask("HEAD / HTTP/1.1\r\n\r\n");
    assert_eq!((head.status, &*head.text), (200, ""));
    let length = format!("Content-Length: {}", landing.text.len());
    has(&head.head, &length);
    lacks(exporter.log(), "WARN");
}

#[test]
fn the_file_with_the_url_is_read_for_each_scrape() {
    let (old, new) = (TestDatabase::migrated(), TestDatabase::migrated());
    let file = TempFile::of(format!("{}\n", old.url()));
    let mut command = Command::new(PROGRAM);
    command
        .args(["--database-url-file", &file.to_string()])
        .env_remove("DATABASE_URL");
    let exporter = Exporter::of(command);
    up(&exporter);
    assert_eq!(backends(&mut old.client()).len(), 1);

    file.set(new.url());
    up(&exporter);
    assert_eq!(backends(&mut new.client()).len(), 1);
    wait_until("the old connection to end", SOON, || {
        backends(&mut old.client()).is_empty()
    });

    // A missing file is reported at the next connection, and the exporter recovers when it is back.
    file.remove();
    assert!(exporter.scrape(10).is_up());
    disconnect(&new);
    // The first failed reading may still be that of the old connection.
    wait_until("the file to be missed", SOON, || {
        !exporter.scrape(10).is_up() && exporter.log().contains("could not read the database URL")
    });
    file.set(new.url());
    up(&exporter);
}

#[test]
fn a_port_in_use_is_an_error_that_suggests_a_fix() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let url = TempFile::of(server_url());
    let file = format!("--database-url-file={url}");
    let (code, said) = printed(&["--web.listen-address", &address, &file]);
    assert_eq!(code, Some(2), "{said}");
    has(&said, &address);
    has(&said, "in use");
    has(&said, "--web.listen-address");
}

#[test]
fn bad_arguments_are_reported_at_start() {
    for (arguments, expected) in [
        ("--database-url postgres://me:secret@host/db", "-file"),
        ("--log-level loud", "--log-level"),
        ("", "DATABASE_URL"),
    ] {
        let arguments: Vec<&str> = arguments.split_whitespace().collect();
        let (code, said) = printed(&arguments);
        assert_eq!(code, Some(2), "{said}");
        has(&said, expected);
        lacks(&said, "secret");
    }
}

#[test]
fn an_exporter_is_ready_once_the_schema_exists_and_check_exits_with_that() {
    let check = |address: &str| printed(&["--check", "--web.listen-address", address]);
    let test = TestDatabase::empty();
    let exporter = Exporter::start(PROGRAM, test.url());
    wait_until("the missing schema to be the cause", SOON, || {
        let asked = exporter.scrape(10);
        !asked.is_up() && asked.value(r#"redrive_down{cause="schema"}"#) == Some(1.0)
    });
    assert_eq!(exporter.get("/-/ready").status, 503);
    let (code, said) = check(exporter.address());
    assert_eq!(code, Some(1), "{said}");
    has(&said, "schema");
    test.open().migrate().unwrap();
    assert!(exporter.scrape(10).is_up());
    assert_eq!(exporter.get("/-/ready").status, 200);
    let (code, said) = check(exporter.address());
    assert_eq!(code, Some(0), "{said}");

    // Nobody listens there.
    let (code, said) = check("127.0.0.1:1");
    assert_eq!(code, Some(1), "{said}");
    has(&said, "no answer from");
}

#[test]
fn a_stop_completes_the_scrape_in_flight() {
    let cluster = Cluster::new();
    cluster.start();
    cluster.migrate();
    for signal in ["TERM", "INT"] {
        let mut exporter = Exporter::start(PROGRAM, &cluster.url());
        up(&exporter);
        let silence = Frozen::stop(backends(&mut cluster.client()));
        let asked = thread::scope(|scope| {
            let scrape = scope.spawn(|| exporter.scrape(30));
            // The query follows the request, so the request has been read.
            wait_until("the query of the scrape", SOON, || {
                cluster.has_unread_bytes()
            });
            exporter.signal(signal);
            wait_until("the stop to begin", SOON, || {
                TcpStream::connect(exporter.address()).is_err()
            });
            drop(silence);
            scrape.join().expect("an answer")
        });
        assert!(asked.is_up(), "{}", exporter.log());
        assert!(asked.text.ends_with('\n'), "the answer is whole");
        assert_eq!(exporter.ended().code(), Some(0), "{}", exporter.log());
    }
}

#[test]
fn a_stop_leaves_a_silent_database() {
    let cluster = Cluster::new();
    cluster.start();
    cluster.migrate();
    let mut exporter = Exporter::start(PROGRAM, &cluster.url());
    up(&exporter);
    let _silence = Frozen::stop(backends(&mut cluster.client()));
    assert!(!exporter.scrape(1).is_up());
    exporter.signal("TERM");
    assert_eq!(exporter.ended().code(), Some(0), "{}", exporter.log());
}
