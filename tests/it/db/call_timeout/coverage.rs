//! Coverage: every fallible call of the library is in the table, or needs no server.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use super::calls::calls;

/// Calls that fail without a server, because they check their arguments.
/// A handler only adds to its job, and the worker stores it.
const PURE: &[&str] = &[
    "ForeignFailure::check",
    "Edit::merge",
    "Edit::patch",
    "Edit::set",
    "UtcHours::between",
    "Schedule::cron",
    "Schedule::every",
    "Schedule::zone",
    "Filter::payload",
    "Filter::and",
    "Filter::parse_condition",
    "parse_duration",
    "Job::checkpoint",
    "Job::last_checkpoint",
    "Job::then",
    "Job::then_in_queue",
    "NewJob::new",
    "NewJob::raw",
    "Queue::new",
];

/// Calls on a connection of the caller, which wait as long as that connection. Their documentation
/// states it.
const CALLERS: &[(&str, &str)] = &[
    (
        "ConnectOptions::connect",
        "waits forever for a silent server",
    ),
    ("Queue::enqueue_in", "caller's transaction"),
    ("Queue::enqueue_job_in", "caller's transaction"),
    ("Queue::enqueue_jobs_in", "caller's transaction"),
    ("Queue::enqueue_many_in", "caller's transaction"),
    (
        "Worker::run_until_signal",
        "Runs until the process receives",
    ),
];

fn sources() -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut left = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/redrive/src")];
    while let Some(folder) = left.pop() {
        for entry in fs::read_dir(folder).expect("the sources of the library") {
            let path = entry.expect("an entry of a folder").path();
            match path.is_dir() {
                true => left.push(path),
                false => found.push(path),
            }
        }
    }
    found
}

/// Returns the type of an `impl` line.
fn implemented(line: &str) -> Option<&str> {
    let rest = line.strip_prefix("impl")?;
    let rest = match rest.strip_prefix('<') {
        Some(generic) => generic.split_once("> ")?.1,
        None => rest.strip_prefix(' ')?,
    };
    let whom = rest.split_once(" for ").map_or(rest, |(_, whom)| whom);
    whom.split([' ', '<', '{']).next()
}

/// Returns the fallible public functions of a file, with their documentation.
fn fallible(text: &str) -> BTreeMap<String, String> {
    let text = text
        .split("#[cfg(test)]\nmod tests")
        .next()
        .expect("a part");
    let mut found = BTreeMap::new();
    let (mut whose, mut said) = ("", String::new());
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if let Some(whom) = implemented(line) {
            whose = whom;
        } else if line.starts_with('}') {
            whose = "";
        }
        let bare = line.trim_start();
        if let Some(words) = bare.strip_prefix("///") {
            said.push_str(words);
        }
        let Some(rest) = bare.strip_prefix("pub fn ") else {
            if bare.is_empty() {
                said.clear();
            }
            continue;
        };
        let name = rest.split(['(', '<']).next().unwrap_or_default();
        let mut signature = rest.to_owned();
        while !signature.trim_end().ends_with(['{', ';']) {
            signature.push_str(lines.next().expect("the rest of a signature"));
        }
        // The result of a handler argument is not the result of the function.
        let own = signature.split(" where ").next().unwrap_or_default();
        let answer = own.rsplit_once("->").map_or("", |(_, answer)| answer);
        if answer.contains("Result<") {
            let name = match whose {
                "" => name.to_owned(),
                whose => format!("{whose}::{name}"),
            };
            found.insert(name, std::mem::take(&mut said));
        }
        said.clear();
    }
    found
}

#[test]
fn every_public_call_that_can_fail_is_in_the_table() {
    let mut written = BTreeMap::new();
    for path in sources() {
        written.extend(fallible(&fs::read_to_string(&path).expect("a source")));
    }
    assert!(written.len() > 60, "only {} calls", written.len());
    let rows: BTreeSet<&str> = calls().map(|call| call.name).collect();
    let callers = CALLERS.iter().map(|(name, _)| *name);
    let known: BTreeSet<&str> = rows.iter().chain(PURE).copied().chain(callers).collect();
    let missing: Vec<&String> = written
        .keys()
        .filter(|name| !known.contains(&***name))
        .collect();
    assert!(missing.is_empty(), "calls without a row: {missing:?}");
    let gone: Vec<&&str> = known
        .iter()
        .filter(|name| !written.contains_key(**name) && **name != "MetricsCollector::collect")
        .collect();
    assert!(gone.is_empty(), "rows of no call: {gone:?}");
    for (name, said) in CALLERS {
        assert!(written[*name].contains(said), "{name}: {}", written[*name]);
    }
}

#[test]
fn signatures_are_parsed_from_the_source() {
    let text = "impl<'a> One<'a> {\n    /// Says so.\n    pub fn ask(\n        &self,\n    ) -> Result<()> {\n    }\n    \
                pub fn quiet(&self) -> bool {\n    }\n}\n\npub fn open() -> Result<One> {\n}\n";
    let found = fallible(text);
    let names: Vec<&String> = found.keys().collect();
    assert_eq!(names, ["One::ask", "open"]);
    assert_eq!(found["One::ask"], " Says so.");
}
