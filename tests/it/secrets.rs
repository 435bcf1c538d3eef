//! Secrets: a password and what is in payloads, looked for wherever they must not be.

use std::collections::BTreeSet;
use std::error::Error as StdError;
use std::fs;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use log::LevelFilter;
use redrive::{
    Act, Address, Backoff, Captured, Failure, Job, LetterState, Letters, NewJob, Queue, Worker,
};
use redrive_tests::{
    Logged, Order, SOON, TestDatabase, drained, letters_in, stop, wait_until, worker,
};
use serde::{Deserialize, Serialize};

use crate::exporter::PROGRAM as EXPORTER;

/// Of the password. Nothing else has this in it.
const PASSWORD: &str = "canary-pa55word";
/// Of payloads, keys and captured bytes.
const CARD: &str = "canary-4929-card";

/// The URL of a database with a password that the server does not ask for.
fn with_password(url: &str) -> String {
    let (scheme, rest) = url.split_once("://").expect("a URL");
    let (user, address) = rest.split_once('@').unwrap_or(("postgres", rest));
    let user = user.split(':').next().unwrap_or_default();
    format!("{scheme}://{user}:{PASSWORD}@{address}")
}

/// The same as words.
fn in_words(url: &str) -> String {
    let (_, rest) = url.split_once("://").expect("a URL");
    let (_, address) = rest.split_once('@').expect("a user");
    let (address, database) = address.split_once('/').expect("a database");
    let (host, port) = address.split_once(':').expect("a port");
    format!("host={host} port={port} user=postgres dbname={database} password={PASSWORD}")
}

/// `redrive` in a process of its own, whose URL comes by the environment.
fn command(url: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_operator"));
    command
        .env("DATABASE_URL", url)
        .env_remove("RUST_LOG")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .args(["--no-wait", "-vv"]);
    command
}

fn run(url: &str, arguments: &[&str]) -> Output {
    command(url).args(arguments).output().expect("run redrive")
}

#[track_caller]
fn nowhere(canary: &str, what: &str, text: impl AsRef<[u8]>) {
    let text = String::from_utf8_lossy(text.as_ref());
    assert!(!text.contains(canary), "{what} tells a secret:\n{text}");
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
    &["dlq"],
    &["dlq", "list"],
    &["dlq", "groups"],
    &["dlq", "groups", "list"],
    &["dlq", "groups", "show", "1"],
    &["dlq", "groups", "ack", "1"],
    &["dlq", "groups", "resolve", "1"],
    &["dlq", "groups", "ignore", "1"],
    &["dlq", "groups", "reopen", "1"],
    &["dlq", "groups", "note", "1", "known"],
    &["dlq", "groups", "own", "1", "payments"],
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
    &["dlq", "redrive", "orders", "--yes"],
    &["dlq", "runs", "list"],
    &["dlq", "runs", "show", "1"],
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
    &["dlq", "archive", "export"],
    &["dlq", "discard", "orders", "--why", "test data", "--yes"],
    &["breaker", "open", "gateway", "--for", "1s"],
    &["breaker", "list"],
    &["breaker", "close", "gateway"],
    &["prune"],
    &["redact", "add", "--path", "/card"],
    &["redact", "list"],
    &["redact", "remove", "1"],
    &["audit"],
    &["audit", "counters"],
];

/// The commands that have no commands below them, by their help.
fn leaves(path: &mut Vec<String>, found: &mut BTreeSet<String>) {
    let output = Command::new(env!("CARGO_BIN_EXE_operator"))
        .args(&*path)
        .arg("--help")
        .output()
        .expect("ask for help");
    let help = String::from_utf8(output.stdout).expect("UTF-8");
    let Some((_, below)) = help.split_once("\nCommands:\n") else {
        found.insert(path.join(" "));
        return;
    };
    // A command at two blanks; what goes on below it is further in.
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
fn no_command_tells_the_password() {
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

    // URLs that are wrong in every way there is.
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
fn no_debug_tells_the_password() {
    let test = TestDatabase::migrated();
    for url in [with_password(test.url()), in_words(test.url())] {
        let address: Address = url.parse().unwrap();
        let builder = redrive::Database::builder(&url);
        let db = builder.clone().open().unwrap();
        let queue = Queue::new(&db, "orders").unwrap();
        let worker = Worker::builder(&queue).handle(|_: &Job<Order>| Ok(()));
        let told = format!("{address:?} {builder:?} {db:?} {queue:?} {worker:?}");
        nowhere(PASSWORD, "Debug", told);
        let worker = worker.start().unwrap();
        nowhere(PASSWORD, "Debug", format!("{worker:?}"));
        nowhere(PASSWORD, "Debug", format!("{:?}", stop(worker)));
    }
}

/// A process that is killed when the test is over.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended.
        _ = self.0.kill();
        _ = self.0.wait();
    }
}

#[test]
fn nobody_finds_the_password_in_the_list_of_processes() {
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
    // Nor does the server's own list of who does what.
    let asked = "SELECT string_agg(a::text, ' ') FROM pg_stat_activity a WHERE datname = current_database()";
    let told: String = client.query_one(asked, &[]).unwrap().get(0);
    nowhere(PASSWORD, "pg_stat_activity", told);
    fs::remove_file(file).unwrap();
}

/// A payment, whose card is nobody's business.
#[derive(Serialize, Deserialize)]
struct Payment {
    number: i64,
    card: String,
}

impl redrive::Payload for Payment {
    const KIND: &'static str = "payment";
}

fn payment(number: i64) -> Payment {
    Payment {
        number,
        card: CARD.to_owned(),
    }
}

/// An error and everything below it, in all the ways that people print it.
fn told(error: &(dyn StdError + 'static)) -> String {
    let mut told = Vec::new();
    let mut cause = Some(error);
    while let Some(error) = cause {
        told.push(format!("{error} {error:?} {error:#?}"));
        cause = error.source();
    }
    told.join("\n")
}

#[test]
fn no_payload_and_no_key_is_logged() {
    let logged = Logged::start(LevelFilter::Trace);
    let test = TestDatabase::migrated();
    let queue = test.queue("orders");
    let db = queue.database();
    let key = |n| {
        NewJob::new(&payment(n))
            .unwrap()
            .unique(format!("{CARD}-{n}"))
    };
    queue
        .enqueue_many(&[payment(1), payment(2), payment(3)])
        .unwrap();
    queue.add(key(4)).unwrap();
    queue.add(key(4)).unwrap();
    queue
        .enqueue_many(&(5..1200).map(payment).collect::<Vec<_>>())
        .unwrap();
    queue
        .add(NewJob::raw("payment", &format!("{{\"number\": \"{CARD}\"}}")).unwrap())
        .unwrap();
    let working = worker(&queue)
        .slots(4)
        .lease(Duration::from_secs(2))
        .backoff(Backoff::fixed(Duration::ZERO))
        .handle(
            |job: &Job<Payment>| match (job.payload().number, job.attempt()) {
                (1, 1) => Err(Failure::retry("declined")),
                (2, _) => Err(Failure::reject("declined")),
                (3, 1) => panic!("declined"),
                _ => Ok(()),
            },
        )
        .start()
        .unwrap();
    drained(&queue);
    db.redrive(&Letters::queue("orders"), &Act::new()).unwrap();
    drained(&queue);
    let foreign = Captured::new("cards", "1", "orders", "payment", CARD.as_bytes());
    db.capture(&foreign).unwrap();
    db.letters(&Letters::queue("orders")).unwrap();
    stop(working);
    assert_eq!(letters_in(db, "orders", LetterState::Open), 3);

    let lines = logged.lines();
    assert!(
        lines.iter().any(|line| line.contains(" redrive")),
        "it logs"
    );
    // The driver logs what it sends, at debug: the programs turn that off, and SECURITY.md says so.
    let ours: Vec<&String> = lines
        .iter()
        .filter(|line| !line.contains(" tokio_postgres") && !line.contains(" postgres"))
        .collect();
    nowhere(CARD, "the log", format!("{ours:#?}"));
    // That is where the canary would be heard: the test is not deaf.
    assert!(
        lines.iter().any(|line| line.contains(CARD)),
        "the driver has become discreet: say so in SECURITY.md"
    );
}

#[test]
fn a_program_that_logs_in_detail_logs_no_payload() {
    let test = TestDatabase::migrated();
    let queue = test.queue("orders");
    queue.enqueue_many(&[payment(1), payment(2)]).unwrap();
    let output = run(
        test.url(),
        &["work", "orders", "--exec", "exit 65", "--drain"],
    );
    assert!(output.status.success());
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(
        told.contains("INFO") && told.contains("started with"),
        "{told}"
    );
    nowhere(CARD, "the log", &output.stderr);
    nowhere(CARD, "the output", &output.stdout);
}

#[test]
fn what_the_server_refuses_is_not_repeated() {
    let logged = Logged::start(LevelFilter::Debug);
    let test = TestDatabase::migrated();
    let queue = test.queue("orders");
    // Refused with the whole row in the details: by INSERT, by COPY, in the caller's transaction.
    test.client()
        .batch_execute(
            "ALTER TABLE redrive.jobs ADD CONSTRAINT no_cards CHECK (payload ->> 'card' IS NULL)",
        )
        .unwrap();
    let many: Vec<Payment> = (0..1001).map(payment).collect();
    let mut client = test.client();
    let raw = client
        .execute(
            "INSERT INTO redrive.jobs (segment, queue, kind, payload) VALUES (0, 'q', 'k', $1::text::jsonb)",
            &[&format!("{{\"card\": \"{CARD}\"}}")],
        )
        .expect_err("refused");
    assert!(
        told(&raw).contains(CARD),
        "the server repeats it: the test is not deaf"
    );
    let refused = [
        queue.enqueue(&payment(1)).expect_err("refused"),
        queue.enqueue_many(&many).expect_err("refused"),
        queue
            .enqueue_in(&mut client, &payment(1))
            .expect_err("refused"),
    ];
    for error in &refused {
        assert!(error.is_invalid(), "{error:?}");
        assert_eq!(
            error.sql_state().map(postgres::error::SqlState::code),
            Some("23514")
        );
        assert!(told(error).contains("no_cards"), "{error:?}");
        nowhere(CARD, "an error", told(error));
    }
    let payload = format!("{{\"card\": \"{CARD}\"}}");
    let output = run(test.url(), &["enqueue", "orders", "payment", &payload]);
    let typed = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.code() == Some(2) && typed.contains("no_cards"),
        "{typed}"
    );
    nowhere(CARD, "the command", &output.stderr);

    // And a worker whose letter is refused says so, without the letter.
    test.client()
        .batch_execute(
            "ALTER TABLE redrive.jobs DROP CONSTRAINT no_cards; \
             ALTER TABLE redrive.dead_letters ADD CONSTRAINT no_letters CHECK (error_class <> 'Declined')",
        )
        .unwrap();
    queue.enqueue(&payment(1)).unwrap();
    let working = worker(&queue)
        .handle(|_: &Job<Payment>| Err(Failure::reject("declined").class("Declined")))
        .start()
        .unwrap();
    wait_until("the worker to tell of the refusal", SOON, || {
        logged
            .lines()
            .iter()
            .any(|line| line.contains("no_letters"))
    });
    stop(working);
    let ours: Vec<String> = logged
        .lines()
        .into_iter()
        .filter(|line| !line.contains(" tokio_postgres") && !line.contains(" postgres"))
        .collect();
    nowhere(CARD, "the log", format!("{ours:#?}"));
}
