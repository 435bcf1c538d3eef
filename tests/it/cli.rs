//! The command line, driven in this process: what it prints, what it exits with, and what of it
//! the database has afterwards.

mod dlq;

use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use redrive::{JobId, Letters, Queue, Reason};
use redrive_tests::{TestDatabase, stats};
use serde_json::Value;

/// What a command did.
struct Ran {
    code: ExitCode,
    out: String,
    err: String,
}

impl Ran {
    #[track_caller]
    fn exits_with(self, code: u8) -> Ran {
        assert_eq!(
            self.code,
            ExitCode::from(code),
            "stdout: {}\nstderr: {}",
            self.out,
            self.err
        );
        self
    }

    fn lines(&self) -> Vec<Value> {
        self.out
            .lines()
            .map(|line| serde_json::from_str(line).expect("a JSON object a line"))
            .collect()
    }
}

fn redrive_at(url: &str, arguments: &[&str]) -> Ran {
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let program = ["redrive", "--database-url", url, "--no-wait"];
    let arguments = program.iter().chain(arguments).map(OsString::from);
    let code = redrive_cli::run(arguments, &mut out, &mut err);
    let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
    Ran {
        code,
        out: text(out),
        err: text(err),
    }
}

fn redrive(db: &TestDatabase, arguments: &[&str]) -> Ran {
    redrive_at(db.url(), arguments)
}

/// How many jobs of a queue can be claimed now.
fn ready(queue: &Queue) -> u64 {
    stats(queue.database(), queue.name()).map_or(0, |stats| stats.ready)
}

/// A file of payloads, gone with the test.
struct Payloads(PathBuf);

impl Payloads {
    /// As many lines as asked for, with `bad` in the place of the line of that number.
    fn new(db: &TestDatabase, count: usize, bad: Option<(usize, &str)>) -> Payloads {
        let mut lines: Vec<String> = (1..=count)
            .map(|order| format!("{{\"order\": {order}}}"))
            .collect();
        if let Some((number, text)) = bad {
            text.clone_into(&mut lines[number - 1]);
        }
        let file = std::env::temp_dir().join(format!("{}.ndjson", db.name()));
        fs::write(&file, lines.join("\n")).expect("write a file for the test");
        Payloads(file)
    }

    fn path(&self) -> &str {
        self.0.to_str().expect("a path in UTF-8")
    }
}

impl Drop for Payloads {
    fn drop(&mut self) {
        _ = fs::remove_file(&self.0);
    }
}

/// Letters that a command rejected.
fn letters(db: &TestDatabase, queue: &Queue, count: usize) -> Vec<JobId> {
    let payloads = Payloads::new(db, count, None);
    redrive(
        db,
        &[
            "enqueue",
            queue.name(),
            "order.placed",
            "--file",
            payloads.path(),
        ],
    )
    .exits_with(0);
    let worked = redrive(
        db,
        &[
            "work",
            queue.name(),
            "--exec",
            "echo broken >&2; exit 65",
            "--drain",
        ],
    )
    .exits_with(0);
    assert!(
        worked.err.contains(&format!("dead {count}")),
        "{}",
        worked.err
    );
    let open = queue
        .database()
        .letters(&Letters::queue(queue.name()).limit(1000))
        .unwrap();
    open.iter().map(|letter| letter.id).collect()
}

#[test]
fn a_schema_that_is_missing_is_told_and_made() {
    let db = TestDatabase::empty();
    redrive(&db, &["migrate", "--check"]).exits_with(1);
    let told = redrive(&db, &["enqueue", "q", "k", "1"]).exits_with(2);
    assert!(told.err.contains("run `redrive migrate`"), "{}", told.err);
    redrive(&db, &["migrate"]).exits_with(0);
    redrive(&db, &["migrate", "--check"]).exits_with(0);
    redrive(&db, &["enqueue", "q", "k", "1"]).exits_with(0);
}

#[test]
fn a_bad_line_is_named_and_nothing_or_all_the_rest_is_enqueued() {
    let db = TestDatabase::migrated();
    let queue = db.queue("orders");
    let payloads = Payloads::new(&db, 80_000, Some((70_001, "{\"order\": ")));
    let enqueue = [
        "enqueue",
        "orders",
        "order.placed",
        "--file",
        payloads.path(),
    ];

    let refused = redrive(&db, &enqueue).exits_with(2);
    assert!(refused.err.contains("line 70001 of"), "{}", refused.err);
    assert!(queue.is_drained().unwrap(), "all or nothing");

    let skipped = redrive(
        &db,
        &[&enqueue[..], &["--skip-bad-lines", "--json"]].concat(),
    )
    .exits_with(1);
    assert!(skipped.err.contains("line 70001: "), "{}", skipped.err);
    assert_eq!(skipped.lines()[0]["enqueued"], 79_999);
    assert_eq!(ready(&queue), 79_999);
}

#[test]
fn the_exit_status_of_a_command_is_the_outcome_of_its_job() {
    let db = TestDatabase::migrated();
    for (kind, attempts) in [
        ("done", "5"),
        ("rejected", "5"),
        ("failing", "1"),
        ("killed", "1"),
    ] {
        redrive(
            &db,
            &[
                "enqueue",
                "w",
                kind,
                "{\"a\": 1}",
                "--max-attempts",
                attempts,
            ],
        )
        .exits_with(0);
    }
    let command = r#"test "$(cat)" = '{"a": 1}' || exit 3
        case $REDRIVE_KIND in
            rejected) echo "bad currency" >&2; exit 65;;
            failing) exit 1;;
            killed) kill -9 $$;;
        esac"#;
    let worked = redrive(&db, &["work", "w", "--exec", command, "--drain", "--json"]).exits_with(0);
    assert_eq!(
        (&worked.lines()[0]["done"], &worked.lines()[0]["dead"]),
        (&1.into(), &3.into())
    );

    let letters = db.open().letters(&Letters::queue("w")).unwrap();
    let mut died: Vec<_> = letters
        .iter()
        .map(|letter| (&*letter.kind, letter.reason, &*letter.error_class))
        .collect();
    died.sort_unstable_by_key(|(kind, ..)| *kind);
    assert_eq!(
        died,
        [
            ("failing", Reason::Exhausted, "exit 1"),
            ("killed", Reason::Exhausted, "signal 9"),
            ("rejected", Reason::Rejected, "exit 65"),
        ]
    );
    assert!(
        letters
            .iter()
            .any(|letter| letter.error_message == "bad currency")
    );
}

#[test]
fn a_command_that_overruns_its_deadline_is_ended() {
    let db = TestDatabase::migrated();
    redrive(&db, &["enqueue", "w", "k", "1", "--max-attempts", "1"]).exits_with(0);
    let slow = [
        "work",
        "w",
        "--exec",
        "trap '' TERM; sleep 300",
        "--deadline",
        "300ms",
        "--drain",
    ];
    redrive(&db, &slow).exits_with(0);
    assert_eq!(
        db.open().letters(&Letters::queue("w")).unwrap()[0].reason,
        Reason::Timeout
    );
}

#[test]
fn live_jobs_are_shown_cancelled_and_reordered() {
    let db = TestDatabase::migrated();
    let added = redrive(
        &db,
        &["enqueue", "q", "k", "[1]", "--delay", "1h", "--json"],
    )
    .exits_with(0);
    let id = added.lines()[0]["id"].to_string();
    redrive(&db, &["job", "set", &id, "--priority", "-7"]).exits_with(0);
    let shown = redrive(&db, &["job", "show", &id, "--json"])
        .exits_with(0)
        .lines()
        .remove(0);
    assert_eq!(
        (&shown["state"], &shown["priority"]),
        (&"delayed".into(), &(-7).into())
    );
    redrive(&db, &["job", "cancel", &id]).exits_with(0);
    let again = redrive(&db, &["job", "cancel", &id]).exits_with(1);
    assert!(again.err.contains("dlq show"), "{}", again.err);
    redrive(&db, &["job", "show", "424242"]).exits_with(1);
    redrive(&db, &["stats", "nobody"]).exits_with(1);
}

#[test]
fn bad_arguments_are_refused_with_exit_code_2() {
    let db = TestDatabase::migrated();
    let long = "x".repeat(101);
    for arguments in [
        &["enqueue", "q", "k", "\"\\u0000\""][..],
        &["enqueue", "q", "k", "{nope"],
        &["enqueue", "", "k", "1"],
        &["enqueue", &long, "k", "1"],
        &["enqueue", "q", "a\u{1b}b", "1"],
        &["enqueue", "q", "k", "1", "--delay", "-5s"],
        &["enqueue", "q", "k", "1", "--delay", "9999999d"],
        &["enqueue", "q", "k", "1", "--max-attempts", "-1"],
        &["enqueue", "q", "k", "1", "--priority", "1001"],
        &["enqueue", "q", "k"],
        &["enqueue", "q", "k", "--file", "/nowhere.ndjson"],
        &["work", "q", "--exec", "true", "--lease", "1ms"],
        &["work", "q", "--exec", "true", "--kind", "a", "--kind", "a"],
        &["dlq", "discard", "--id", "1", "--why", " "],
        &["dlq", "list", "--state", "asleep"],
        &["dlq", "redrive"],
    ] {
        let told = redrive(&db, arguments).exits_with(2);
        assert!(
            told.err.contains("error:") && told.out.is_empty(),
            "{arguments:?}: {}",
            told.err
        );
    }
    assert!(
        db.open().stats(None).unwrap().is_empty(),
        "nothing was stored"
    );
}

#[test]
fn a_url_is_never_printed() {
    for url in [
        "postgres://me:s3cret@127.0.0.1:1/db",
        "postgres://me:s3cret@h:port/db",
        "postgress://me:s3cret@h/db",
    ] {
        let told = redrive_at(url, &["stats"]).exits_with(2);
        assert!(
            !told.err.contains("s3cret") && told.err.contains("error:"),
            "{}",
            told.err
        );
    }
}

#[test]
fn a_unique_job_is_stored_once_and_the_exit_code_tells() {
    let db = TestDatabase::migrated();
    let enqueue = ["enqueue", "orders", "order", "{}", "--unique", "today"];
    let first = redrive(&db, &enqueue).exits_with(0);
    let again = redrive(&db, &enqueue).exits_with(1);
    assert_eq!(again.out, first.out, "the id of the one that has the key");
    assert!(again.err.contains("nothing was stored"), "{}", again.err);
    let mut json = enqueue.to_vec();
    json.push("--json");
    let told = redrive(&db, &json).exits_with(1).lines();
    assert_eq!(
        (&told[0]["stored"], &told[0]["unique"]),
        (&Value::Bool(false), &Value::from("today"))
    );
    assert_eq!(told[0]["id"].to_string(), first.out.trim());
    redrive(&db, &["enqueue", "orders", "order", "{}", "--unique", ""]).exits_with(2);
    assert_eq!(ready(&db.queue("orders")), 1);
}

#[test]
fn breakers_are_opened_listed_and_closed() {
    let db = TestDatabase::migrated();
    redrive(&db, &["breaker", "list"]).exits_with(1);
    let open = [
        "breaker",
        "open",
        "queue:orders",
        "--why",
        "an \u{1b}[31mupgrade",
    ];
    let told = redrive(&db, &open).exits_with(0);
    assert_eq!(
        told.out,
        "breaker queue:orders is open until it is closed\n"
    );
    let told = redrive(&db, &["breaker", "open", "payments-api", "--for", "30m"]).exits_with(0);
    assert_eq!(
        told.out,
        "breaker payments-api is open for 30m, then a job is tried\n"
    );
    let list = redrive(&db, &["breaker", "list"]).exits_with(0);
    assert_eq!(list.out.lines().count(), 3, "{}", list.out);
    assert!(
        list.out.contains("operator") && list.out.contains("never"),
        "{}",
        list.out
    );
    assert!(!list.out.contains('\u{1b}'), "{:?}", list.out);
    let lines = redrive(&db, &["breaker", "list", "--json"])
        .exits_with(0)
        .lines();
    assert_eq!(
        (&lines[1]["name"], &lines[1]["probe_at"]),
        (&Value::from("queue:orders"), &Value::Null)
    );
    assert_eq!(
        (&lines[0]["state"], &lines[0]["cause"]),
        (&Value::from("open"), &Value::from("operator"))
    );

    redrive(&db, &["breaker", "close", "queue:orders"]).exits_with(0);
    let told = redrive(&db, &["breaker", "close", "queue:orders"]).exits_with(1);
    assert!(told.err.contains("is not open"), "{}", told.err);
    assert_eq!(
        redrive(&db, &["breaker", "list", "--json"])
            .exits_with(0)
            .lines()
            .len(),
        1
    );
    assert_eq!(
        redrive(&db, &["breaker", "list", "--all", "--json"])
            .exits_with(0)
            .lines()
            .len(),
        2
    );
    redrive(&db, &["breaker", "open", "queue:"]).exits_with(2);
    redrive(&db, &["breaker", "open", "x", "--for", "0s"]).exits_with(2);
    let who = "SELECT count(*) FROM redrive.audit WHERE person LIKE '%@%'";
    let acts: i64 = db.client().query_one(who, &[]).unwrap().get(0);
    assert_eq!(acts, 3);
}
