//! The commands of the command line.

use std::collections::VecDeque;
use std::process::ExitCode;
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use redrive_tests::{Proxy, TestDatabase, ran_alone};

use super::{AT_ONCE, SLACK};
use crate::commands::{Stage, last_examples};

/// How long a connection and an answer may take.
const CONNECT: &str = "1";
const ANSWER: &str = "400ms";

/// A second to connect and one for the thread; a bulk command may take four times as long as a
/// call, and some commands make two calls.
const LIMIT: Duration = Duration::from_millis(2000 + 2 * 4 * 400);

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
    let stage = Stage::new(&test);
    let whens = [After::Nothing, After::Answers(2), After::Answers(4)];
    // `work` runs until a stop, which is in the table of calls.
    let all: Vec<Vec<String>> = last_examples()
        .iter()
        .filter(|example| !example.line.starts_with("work"))
        .map(|example| stage.arguments(example))
        .collect();
    let all = all.iter().flat_map(|verb| whens.map(|when| (verb, when)));
    let waiting: Mutex<VecDeque<(&Vec<String>, After)>> = Mutex::new(all.collect());
    let troubles = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                loop {
                    let next = waiting.lock().unwrap().pop_front();
                    let Some((verb, when)) = next else { return };
                    let found = play(&test, verb, when);
                    troubles.lock().unwrap().extend(found);
                }
            });
        }
    });
    let troubles = troubles.into_inner().unwrap();
    assert!(troubles.is_empty(), "\n{}\n", troubles.join("\n"));
}

/// Runs a command and returns what is wrong with its result.
fn play(test: &TestDatabase, verb: &[String], when: After) -> Option<String> {
    let proxy = Proxy::to(test.url());
    match when {
        After::Nothing => proxy.fall_silent(),
        After::Answers(answers) => proxy.fall_silent_after(answers),
    }
    let url = format!("{}?connect_timeout={CONNECT}", proxy.url());
    let mut arguments = vec!["--database-url", &url, "--no-wait", "--timeout", ANSWER];
    arguments.extend(verb.iter().map(String::as_str));
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
