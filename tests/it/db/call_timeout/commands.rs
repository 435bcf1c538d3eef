//! The commands of the command line, one row each.

use std::collections::VecDeque;
use std::process::ExitCode;
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use redrive_tests::{Proxy, TestDatabase, ran_alone};

use super::{AT_ONCE, SLACK, furnish};

/// How long a connection and an answer may take.
const CONNECT: &str = "1";
const ANSWER: &str = "400ms";

/// A second to connect and one for the thread; a bulk command may take four times as long as a
/// call, and some commands make two calls.
const LIMIT: Duration = Duration::from_millis(2000 + 2 * 4 * 400);

/// A placeholder for the name of a file.
const FILE: &str = "FILE";

/// One command line for every command. `work` is missing because it runs until a stop, which is in
/// the table of calls.
const VERBS: &[&[&str]] = &[
    &["migrate"],
    &["migrate", "--check"],
    &["enqueue", "orders", "order", "{}"],
    &["enqueue", "orders", "order", "--file", FILE],
    &["stats"],
    &["job", "show", "1"],
    &["job", "cancel", "1099511627776"],
    &["job", "set", "1099511627776", "--priority", "3"],
    &["job", "list"],
    &["job", "priority", "3", "orders"],
    &["job", "run-now", "orders"],
    &["job", "edit", "orders", "--merge", r#"{"a":1}"#],
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
    &["dlq", "groups", "note", "1", "seen"],
    &["dlq", "groups", "own", "1", "me"],
    &["dlq", "groups", "merge", "1", "2", "--yes"],
    &["dlq", "groups", "split", "1", "--by", "kind", "--yes"],
    &["dlq", "groups", "rules", "list"],
    &["dlq", "groups", "rules", "apply", "1"],
    &["dlq", "groups", "rules", "remove", "1"],
    &["dlq", "show", "1"],
    &["dlq", "redrive", "orders", "--yes"],
    &["dlq", "redrive", "orders"],
    &["dlq", "discard", "nowhere", "--yes", "--reason", "a test"],
    &["dlq", "reopen", "nowhere", "--yes"],
    &["dlq", "capture", "kafka", "1", "orders", "order", FILE],
    &["dlq", "protection", "list"],
    &["dlq", "protection", "set", "orders", "--approve-above", "1"],
    &["dlq", "protection", "remove", "orders"],
    &["dlq", "runs", "approve", "1"],
    &["dlq", "runs", "list"],
    &["dlq", "runs", "show", "1"],
    &["dlq", "runs", "watch", "1", "--max-wait", "0s"],
    &["dlq", "runs", "pause", "1"],
    &["dlq", "runs", "resume", "1"],
    &["dlq", "runs", "cancel", "1099511627776"],
    &["dlq", "validate", "orders", "--exec", "false"],
    &["dlq", "edit", "orders", "--merge", r#"{"a":1}"#],
    &["dlq", "deliver", "orders", "--exec", "false", "--yes"],
    &["dlq", "export", "orders"],
    &["schedule", "list"],
    &["schedule", "show", "hourly"],
    &["schedule", "history", "hourly"],
    &[
        "schedule", "set", "daily", "orders", "order", "{}", "--cron", "@daily",
    ],
    &["schedule", "pause", "hourly"],
    &["schedule", "resume", "hourly"],
    &["schedule", "trigger", "nothing"],
    &["schedule", "remove", "nothing"],
    &["dlq", "policies", "list"],
    &["dlq", "policies", "set", "daily", "orders"],
    &["dlq", "policies", "remove", "nothing"],
    &["dlq", "policies", "pause", "nightly"],
    &["dlq", "policies", "resume", "nightly"],
    &["dlq", "retention", "list"],
    &["dlq", "retention", "set", "discarded", "30d", "archive"],
    &["dlq", "retention", "remove", "discarded"],
    &["dlq", "archive", "list"],
    &["dlq", "archive", "show", "1"],
    &["dlq", "archive", "restore", "orders", "--yes"],
    &["dlq", "archive", "delete", "orders", "--yes"],
    &["dlq", "archive", "export"],
    &["erase", "payload.tenant=42", "--yes"],
    &["prune", "--audit", "--older-than", "30d", "--yes"],
    &["queue", "list"],
    &["queue", "pause", "tax", "--reason", "x"],
    &["queue", "resume", "mail"],
    &["queue", "limit", "tax", "--rate", "1/s", "--reason", "x"],
    &["queue", "unlimit", "mail"],
    &["queue", "limits"],
    &["queue", "groups", "set", "tax", "fair", "--reason", "x"],
    &["queue", "groups", "show", "tax"],
    &["queue", "groups", "held", "tax"],
    &["queue", "groups", "release", "tax", "g", "--reason", "x"],
    &["breaker", "list"],
    &["breaker", "open", "tax"],
    &["breaker", "close", "mail"],
    &["prune", "--older-than", "1d", "--yes"],
    &["redact", "apply", "--yes"],
    &["redact", "list"],
    &["redact", "add", "--path", "/secret"],
    &["redact", "remove", "1099511627776"],
    &["audit"],
    &["audit", "counters"],
    &["repair"],
];

/// Returns every command that has no subcommands.
fn verbs(path: &[String]) -> Vec<Vec<String>> {
    let mut arguments: Vec<&str> = path.iter().map(String::as_str).collect();
    arguments.push("--help");
    let help = ran_alone(&arguments).out;
    let listed = help
        .lines()
        .skip_while(|line| *line != "Commands:")
        .skip(1)
        .take_while(|line| !line.is_empty())
        .filter_map(|line| line.strip_prefix("  "))
        .filter(|line| !line.starts_with(' '))
        .filter_map(|line| line.split_whitespace().next())
        .filter(|verb| *verb != "help");
    let below: Vec<Vec<String>> = listed
        .flat_map(|verb| {
            let mut path = path.to_vec();
            path.push(verb.to_owned());
            verbs(&path)
        })
        .collect();
    match below.is_empty() {
        true => vec![path.to_vec()],
        false => below,
    }
}

#[test]
fn every_command_is_in_the_table() {
    let all = verbs(&[]);
    assert!(all.len() > 30, "only {} verbs", all.len());
    let missing: Vec<String> = all
        .into_iter()
        .filter(|verb| !VERBS.iter().any(|row| row.starts_with(&words(verb))))
        .map(|verb| verb.join(" "))
        .filter(|verb| verb != "work")
        .collect();
    assert!(missing.is_empty(), "verbs without a row: {missing:?}");
}

fn words(verb: &[String]) -> Vec<&str> {
    verb.iter().map(String::as_str).collect()
}

/// When the server becomes silent.
#[derive(Clone, Copy, Debug)]
enum After {
    /// Immediately.
    Nothing,
    /// After this many replies.
    Answers(i64),
}

#[test]
fn every_command_exits_in_time_when_the_server_is_silent() {
    let test = TestDatabase::migrated();
    furnish(&test.queue("orders"));
    let file = std::env::temp_dir().join(format!("{}.jsonl", test.name()));
    std::fs::write(&file, "{}\n".repeat(3)).expect("write a file");
    let file_name = file.display().to_string();
    let whens = [After::Nothing, After::Answers(2), After::Answers(4)];
    let all = VERBS
        .iter()
        .flat_map(|verb| whens.map(|when| (*verb, when)));
    let waiting: Mutex<VecDeque<(&[&'static str], After)>> = Mutex::new(all.collect());
    let troubles = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                loop {
                    let next = waiting.lock().unwrap().pop_front();
                    let Some((verb, when)) = next else { return };
                    let found = play(&test, verb, when, &file_name);
                    troubles.lock().unwrap().extend(found);
                }
            });
        }
    });
    std::fs::remove_file(&file).expect("remove a file");
    let troubles = troubles.into_inner().unwrap();
    assert!(troubles.is_empty(), "\n{}\n", troubles.join("\n"));
}

/// Runs a command and returns what is wrong with its result.
fn play(test: &TestDatabase, verb: &[&'static str], when: After, file: &str) -> Option<String> {
    let proxy = Proxy::to(test.url());
    match when {
        After::Nothing => proxy.fall_silent(),
        After::Answers(answers) => proxy.fall_silent_after(answers),
    }
    let url = format!("{}?connect_timeout={CONNECT}", proxy.url());
    let mut arguments = vec!["--database-url", &url, "--no-wait", "--timeout", ANSWER];
    let word = |word: &&'static str| if *word == FILE { file } else { *word };
    arguments.extend(verb.iter().map(word));
    let begun = Instant::now();
    let result = ran_alone(&arguments);
    let took = begun.elapsed();
    if took > LIMIT + SLACK {
        return Some(format!(
            "{verb:?}, {when:?}: ended after {took:?}, not within {LIMIT:?}"
        ));
    }
    let asked_somebody = result.err.contains("the database");
    match when {
        After::Nothing if result.code != ExitCode::from(2) || !asked_somebody => Some(format!(
            "{verb:?}: {:?} {} {}",
            result.code, result.out, result.err
        )),
        After::Nothing | After::Answers(_) => None,
    }
}
