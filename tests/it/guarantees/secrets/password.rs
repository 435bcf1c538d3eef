//! The password of the database URL.

use redrive_tests::prelude::*;

use super::{nowhere, run};
use crate::exporter::PROGRAM as EXPORTER;
use crate::worker_process::program;

/// A password that occurs nowhere else.
pub(crate) const PASSWORD: &str = "canary-pa55word";

/// Adds a password to a URL, which the server does not request.
pub(crate) fn with_password(url: &str) -> String {
    let (scheme, rest) = url.split_once("://").expect("a URL");
    let (user, address) = rest.split_once('@').unwrap_or(("postgres", rest));
    let user = user.split(':').next().unwrap_or_default();
    format!("{scheme}://{user}:{PASSWORD}@{address}")
}

/// Returns the URL in keyword form.
fn in_words(url: &str) -> String {
    let (_, rest) = url.split_once("://").expect("a URL");
    let (_, address) = rest.split_once('@').expect("a user");
    let (address, database) = address.split_once('/').expect("a database");
    let (host, port) = address.split_once(':').expect("a port");
    format!("host={host} port={port} user=postgres dbname={database} password={PASSWORD}")
}

#[test]
fn no_log_and_no_error_shows_the_password() {
    let test = TestDatabase::migrated();
    let url = with_password(test.url());
    let mut logged = 0;
    for arguments in [
        &["enqueue", "orders", "order", "{}"][..],
        &["work", "orders", "--exec", "true", "--drain"],
        &["stats"],
    ] {
        let output = run(&url, arguments);
        assert!(output.status.success(), "{arguments:?}");
        logged += output.stderr.len();
        nowhere(PASSWORD, arguments[0], &output.stdout);
        nowhere(PASSWORD, arguments[0], &output.stderr);
    }
    assert!(logged > 0, "nothing was logged");

    // URLs with every kind of mistake.
    let bad = [
        format!("postgres://me:{PASSWORD}@127.0.0.1:1/db"),
        format!("postgres://me:{PASSWORD}@host:port/db"),
        format!("postgress://me:{PASSWORD}@host/db"),
        format!("postgres://me:{PASSWORD}@/db?host=/no/such/place"),
        format!("postgres://me:{PASSWORD}@db.invalid/db"),
        format!("postgres://me:{PASSWORD}@127.0.0.1/db?sslmode={PASSWORD}"),
        format!("postgres://me:{PASSWORD}@127.0.0.1/db?sslmode=verify-full&sslrootcert=/none"),
        format!("postgres://me:{PASSWORD}@127.0.0.1/db?{PASSWORD}={PASSWORD}"),
        format!("host=127.0.0.1 port=x password={PASSWORD}"),
        format!("host=127.0.0.1 password='{PASSWORD}"),
        PASSWORD.to_owned(),
        url.replace(test.name(), "no_such_database"),
        url.replace("postgres:canary", "nobody_here:canary"),
    ];
    for url in &bad {
        let output = run(url, &["stats"]);
        assert_eq!(output.status.code(), Some(2), "{url}");
        nowhere(PASSWORD, url, &output.stdout);
        nowhere(PASSWORD, url, &output.stderr);
        let error = redrive::connect(url).expect_err("a mistake");
        nowhere(PASSWORD, url, format!("{error} {error:?}"));
    }
}

#[test]
fn no_debug_output_contains_the_password() {
    let test = TestDatabase::migrated();
    for url in [with_password(test.url()), in_words(test.url())] {
        let address: ConnectOptions = url.parse().unwrap();
        let builder = Database::builder(&url);
        let db = builder.clone().open().unwrap();
        let queue = Queue::new(&db, "orders").unwrap();
        let worker = Worker::builder(&queue).handle(|_: &Job<Order>| Ok(()));
        let text = format!("{address:?} {builder:?} {db:?} {queue:?} {worker:?}");
        nowhere(PASSWORD, "Debug", text);
        let worker = worker.started();
        nowhere(PASSWORD, "Debug", format!("{worker:?}"));
        nowhere(PASSWORD, "Debug", format!("{:?}", stop(worker)));
    }
}

#[test]
fn the_process_list_does_not_show_the_password() {
    let test = TestDatabase::migrated();
    let url = with_password(test.url());
    let file = TempFile::of(&url);
    let mut working = program(&url);
    working.args(["-vv", "work", "orders", "--exec", "true"]);
    let mut by_environment = Command::new(EXPORTER);
    by_environment.env("DATABASE_URL", &url);
    let mut by_file = Command::new(EXPORTER);
    by_file.args(["--database-url-file", &file.to_string()]);
    for exporter in [&mut by_environment, &mut by_file] {
        exporter.args(["--web.listen-address", "127.0.0.1:0"]);
    }
    let running = [&mut working, &mut by_environment, &mut by_file].map(Process::start);
    let mut client = test.client();
    wait_until("all of them to be connected", SOON, || {
        let asked = "SELECT count(DISTINCT application_name) = 2 AND count(*) >= 4 FROM pg_stat_activity \
                     WHERE datname = current_database() AND application_name LIKE 'redrive%'";
        client.ask(asked, &[])
    });
    for process in &running {
        let line = fs::read(format!("/proc/{}/cmdline", process.id())).unwrap();
        assert!(!line.is_empty());
        nowhere(PASSWORD, "the list of processes", line);
    }
    // Nor does the activity view of the server.
    let asked = "SELECT string_agg(a::text, ' ') FROM pg_stat_activity a WHERE datname = current_database()";
    let text: String = client.ask(asked, &[]);
    nowhere(PASSWORD, "pg_stat_activity", text);
}
