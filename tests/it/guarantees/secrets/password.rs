//! The password of the database URL.

use std::collections::BTreeSet;
use std::fs;
use std::process::{Child, Command, Stdio};

use redrive::{ConnectOptions, Job, Queue, Worker};
use redrive_tests::{Order, SOON, TestDatabase, stop, wait_until};

use super::{command, nowhere, run};
use crate::exporter::PROGRAM as EXPORTER;

/// A password that occurs nowhere else.
const PASSWORD: &str = "canary-pa55word";

/// Adds a password to a URL, which the server does not request.
fn with_password(url: &str) -> String {
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

/// Every command, with arguments that it takes.
const COMMANDS: &[&[&str]] = &[
    &["migrate"],
    &["migrate", "--check"],
    &["migrate", "--print"],
    &["enqueue", "orders", "order", "{}"],
    &["enqueue", "orders", "order", "{"],
    &["work", "orders", "--exec", "exit 65", "--drain"],
    &["stats"],
    &["stats", "--json"],
    &["job", "show", "1"],
    &["job", "cancel", "1"],
    &["job", "set", "1", "--priority", "3"],
    &["job", "list"],
    &["job", "priority", "3", "orders"],
    &["job", "run-now", "orders"],
    &["job", "edit", "orders", "--merge", "{\"a\": 1}"],
    &["dlq"],
    &["dlq", "list"],
    &["dlq", "ls"],
    &["dlq", "groups"],
    &["dlq", "groups", "list"],
    &["dlq", "groups", "show", "1"],
    &["dlq", "groups", "ack", "1"],
    &["dlq", "groups", "resolve", "1"],
    &["dlq", "groups", "ignore", "1"],
    &["dlq", "groups", "reopen", "1"],
    &["dlq", "groups", "note", "1", "known"],
    &["dlq", "groups", "own", "1", "payments"],
    &["dlq", "groups", "split", "1", "--by", "kind", "--yes"],
    &["dlq", "groups", "merge", "1", "2", "--yes"],
    &["dlq", "groups", "rules", "list"],
    &["dlq", "groups", "rules", "apply", "1"],
    &["dlq", "groups", "rules", "remove", "1"],
    &["dlq", "protection", "set", "others", "--approve-above", "5"],
    &["dlq", "protection", "list"],
    &["dlq", "protection", "remove", "others"],
    &["dlq", "show", "1"],
    &["dlq", "validate", "orders", "--exec", "true"],
    &["dlq", "edit", "orders", "--merge", "{\"a\": 1}", "--yes"],
    &["dlq", "deliver", "orders", "--exec", "false", "--yes"],
    &["dlq", "export", "orders"],
    &[
        "dlq",
        "capture",
        "kafka:a",
        "1",
        "orders",
        "order",
        "--payload",
        "{}",
    ],
    &["dlq", "redrive", "orders", "--yes", "--no-wait"],
    &["dlq", "runs", "list"],
    &["dlq", "runs", "show", "1"],
    &["dlq", "runs", "watch", "1", "--max-wait", "0s"],
    &["dlq", "runs", "approve", "1"],
    &["dlq", "runs", "pause", "1"],
    &["dlq", "runs", "resume", "1", "--detach"],
    &["dlq", "runs", "cancel", "1"],
    &[
        "dlq", "policies", "set", "nightly", "orders", "--every", "6h",
    ],
    &["dlq", "policies", "list"],
    &["dlq", "policies", "pause", "nightly"],
    &["dlq", "policies", "resume", "nightly"],
    &["dlq", "policies", "remove", "nightly"],
    &["dlq", "retention", "set", "recovered", "30d"],
    &["dlq", "retention", "list"],
    &["dlq", "retention", "remove", "recovered"],
    &["dlq", "archive", "list"],
    &["dlq", "archive", "show", "1"],
    &["dlq", "archive", "restore", "orders", "--yes"],
    &["dlq", "archive", "delete", "orders", "--yes"],
    &["dlq", "archive", "export"],
    &["erase", "payload.tenant=42", "--yes"],
    &["prune", "--audit", "--older-than", "30d", "--yes"],
    &["dlq", "discard", "orders", "--reason", "test data", "--yes"],
    &["queue", "pause", "gateway", "--reason", "x"],
    &["queue", "list"],
    &["queue", "resume", "gateway"],
    &[
        "queue", "limit", "gateway", "--rate", "1/s", "--reason", "x",
    ],
    &["queue", "limits"],
    &["queue", "groups", "set", "gateway", "fair", "--reason", "x"],
    &["queue", "groups", "show", "gateway"],
    &["queue", "groups", "held", "gateway"],
    &[
        "queue", "groups", "release", "gateway", "g", "--reason", "x",
    ],
    &["queue", "unlimit", "gateway"],
    &[
        "schedule", "set", "nightly", "orders", "order", "{}", "--every", "1h",
    ],
    &["schedule", "list"],
    &["schedule", "show", "nightly"],
    &["schedule", "pause", "nightly", "--reason", "x"],
    &["schedule", "resume", "nightly", "--reason", "x"],
    &["schedule", "trigger", "nightly", "--reason", "x"],
    &["schedule", "history", "nightly"],
    &["schedule", "remove", "nightly", "--reason", "x"],
    &["breaker", "open", "gateway", "--for", "1s"],
    &["breaker", "list"],
    &["breaker", "close", "gateway"],
    &["dlq", "reopen", "orders", "--yes"],
    &["prune", "--yes"],
    &["redact", "add", "--path", "/card"],
    &["redact", "list"],
    &["redact", "apply", "--yes"],
    &["redact", "remove", "1"],
    &["audit"],
    &["audit", "counters"],
    &["repair"],
];

/// Returns the commands without subcommands, according to their help.
fn leaves(path: &mut Vec<String>, found: &mut BTreeSet<String>) {
    let output = Command::new(env!("CARGO_BIN_EXE_test_cli"))
        .args(&*path)
        .arg("--help")
        .output()
        .expect("ask for help");
    let help = String::from_utf8(output.stdout).expect("UTF-8");
    let Some((_, below)) = help.split_once("\nCommands:\n") else {
        found.insert(path.join(" "));
        return;
    };
    // A command is indented by two blanks, its text by more.
    for line in below.lines().take_while(|line| !line.is_empty()) {
        let name = line
            .strip_prefix("  ")
            .filter(|line| !line.starts_with(' '));
        let name = name.and_then(|line| line.split(' ').next());
        if let Some(name) = name.filter(|name| *name != "help") {
            path.push(name.to_owned());
            leaves(path, found);
            path.pop();
        }
    }
}

#[test]
fn no_command_prints_the_password() {
    let mut known = BTreeSet::new();
    leaves(&mut Vec::new(), &mut known);
    assert!(known.len() > 40, "{known:?}");
    let tried: BTreeSet<&str> = known
        .iter()
        .map(String::as_str)
        .filter(|leaf| {
            let leaf: Vec<&str> = leaf.split(' ').collect();
            COMMANDS.iter().any(|command| command.starts_with(&leaf))
        })
        .collect();
    let missed: Vec<&String> = known
        .iter()
        .filter(|leaf| !tried.contains(leaf.as_str()))
        .collect();
    assert!(missed.is_empty(), "no test types {missed:?}");

    let test = TestDatabase::empty();
    let url = with_password(test.url());
    let mut well = 0;
    for arguments in COMMANDS {
        let output = run(&url, arguments);
        let what = arguments.join(" ");
        nowhere(PASSWORD, &what, &output.stdout);
        nowhere(PASSWORD, &what, &output.stderr);
        well += usize::from(output.status.success());
    }
    assert!(well > 35, "only {well} commands went well");

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
        for arguments in [
            &["stats"][..],
            &["enqueue", "orders", "order", "--file", "/dev/null"],
        ] {
            let output = run(url, arguments);
            assert_eq!(output.status.code(), Some(2), "{url}");
            nowhere(PASSWORD, url, &output.stdout);
            nowhere(PASSWORD, url, &output.stderr);
        }
        let Err(error) = redrive::connect(url) else {
            panic!("{url} is good")
        };
        nowhere(PASSWORD, url, format!("{error} {error:?}"));
    }
}

#[test]
fn no_debug_output_contains_the_password() {
    let test = TestDatabase::migrated();
    for url in [with_password(test.url()), in_words(test.url())] {
        let address: ConnectOptions = url.parse().unwrap();
        let builder = redrive::Database::builder(&url);
        let db = builder.clone().open().unwrap();
        let queue = Queue::new(&db, "orders").unwrap();
        let worker = Worker::builder(&queue).handle(|_: &Job<Order>| Ok(()));
        let text = format!("{address:?} {builder:?} {db:?} {queue:?} {worker:?}");
        nowhere(PASSWORD, "Debug", text);
        let worker = worker.start().unwrap();
        nowhere(PASSWORD, "Debug", format!("{worker:?}"));
        nowhere(PASSWORD, "Debug", format!("{:?}", stop(worker)));
    }
}

/// A process, killed at the end of the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // The process may have ended.
        _ = self.0.kill();
        _ = self.0.wait();
    }
}

#[test]
fn the_process_list_does_not_show_the_password() {
    let test = TestDatabase::migrated();
    let url = with_password(test.url());
    let file = std::env::temp_dir().join(format!("{}.url", test.name()));
    fs::write(&file, &url).unwrap();
    let mut working = command(&url);
    working.args(["work", "orders", "--exec", "true"]);
    let mut by_environment = Command::new(EXPORTER);
    by_environment.env("DATABASE_URL", &url);
    let mut by_file = Command::new(EXPORTER);
    by_file.arg("--database-url-file").arg(&file);
    for exporter in [&mut by_environment, &mut by_file] {
        exporter
            .args(["--web.listen-address", "127.0.0.1:0"])
            .stdout(Stdio::null())
            .stderr(Stdio::null());
    }
    let running: Vec<Running> = [&mut working, &mut by_environment, &mut by_file]
        .into_iter()
        .map(|command| Running(command.spawn().unwrap()))
        .collect();
    let mut client = test.client();
    wait_until("all of them to be connected", SOON, || {
        let asked = "SELECT count(DISTINCT application_name) = 2 AND count(*) >= 4 FROM pg_stat_activity \
                     WHERE datname = current_database() AND application_name LIKE 'redrive%'";
        client.query_one(asked, &[]).unwrap().get(0)
    });
    for Running(child) in &running {
        let line = fs::read(format!("/proc/{}/cmdline", child.id())).unwrap();
        assert!(!line.is_empty());
        nowhere(PASSWORD, "the list of processes", line);
    }
    // Nor does the activity view of the server.
    let asked = "SELECT string_agg(a::text, ' ') FROM pg_stat_activity a WHERE datname = current_database()";
    let text: String = client.query_one(asked, &[]).unwrap().get(0);
    nowhere(PASSWORD, "pg_stat_activity", text);
    fs::remove_file(file).unwrap();
}
