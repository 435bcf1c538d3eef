//! Tidy: rules of the repository that a machine can check.

use std::fs;
use std::path::{Path, PathBuf};

/// The root of the repository.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("the root of the repository")
        .to_owned()
}

/// The files below a directory with one of these extensions, sorted; not what is built or hidden.
fn files(below: &str, extensions: &[&str]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut left = vec![root().join(below)];
    while let Some(directory) = left.pop() {
        for entry in fs::read_dir(&directory).into_iter().flatten() {
            let path = entry.expect("an entry of a directory").path();
            let name = path
                .file_name()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned();
            if name.starts_with('.') || name == "target" || path.is_symlink() {
                continue;
            }
            if path.is_dir() {
                left.push(path);
            } else if path
                .extension()
                .is_some_and(|has| extensions.iter().any(|wanted| has == *wanted))
            {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Fails with every trouble that was found, one a line.
#[track_caller]
fn none(troubles: &[String]) {
    assert!(troubles.is_empty(), "\n{}\n", troubles.join("\n"));
}

/// Every line of the files that one of the words is in; the words are given in two halves, so
/// that this file does not find itself.
fn lines_with(files: &[PathBuf], words: &[(&str, &str)]) -> Vec<String> {
    let words: Vec<String> = words
        .iter()
        .map(|(head, tail)| format!("{head}{tail}"))
        .collect();
    let mut troubles = Vec::new();
    for path in files {
        for (number, line) in (1..).zip(read(path).lines()) {
            if let Some(word) = words.iter().find(|word| line.contains(&***word)) {
                troubles.push(format!("{}:{number}: `{word}`", path.display()));
            }
        }
    }
    troubles
}

const TEXTS: &[&str] = &["rs", "sql", "md", "toml", "json", "yml", "yaml", "sh"];

#[test]
fn no_file_names_a_path_of_somebodys_machine() {
    none(&lines_with(
        &files("", TEXTS),
        &[
            ("../", "shared"),
            ("/tmp", "/"),
            ("/root", "/"),
            ("/home", "/"),
            ("/work", "/"),
        ],
    ));
}

#[test]
fn nothing_is_left_to_be_done_in_a_comment() {
    none(&lines_with(
        &files("", &["rs", "sql", "toml", "sh"]),
        &[("TO", "DO"), ("FIX", "ME"), ("HA", "CK")],
    ));
}

#[test]
fn a_source_file_is_one_concept_long() {
    let troubles: Vec<String> = files("crates", &["rs"])
        .iter()
        .filter(|path| path.components().any(|part| part.as_os_str() == "src"))
        .map(|path| (read(path).lines().count(), path))
        .filter(|(lines, _)| *lines > 500)
        .map(|(lines, path)| format!("{}: {lines} lines, over 500", path.display()))
        .collect();
    none(&troubles);
}

#[test]
fn every_source_file_begins_with_what_it_is() {
    let mut troubles = Vec::new();
    for path in files("", &["rs"]) {
        let text = read(&path);
        if !text.starts_with("//!") && !text.starts_with("#![doc") {
            troubles.push(format!("{}: no `//!` at its beginning", path.display()));
        }
    }
    none(&troubles);
}

#[test]
fn files_are_named_by_what_is_in_them() {
    let vague = [
        "utils", "util", "helpers", "helper", "common", "misc", "manager", "types",
    ];
    let troubles: Vec<String> = files("", &["rs"])
        .iter()
        .filter(|path| {
            path.file_stem()
                .is_some_and(|stem| vague.iter().any(|word| stem == *word))
        })
        .map(|path| path.display().to_string())
        .collect();
    none(&troubles);
}

#[test]
fn every_sql_file_of_the_repository_has_its_header() {
    let mut troubles = Vec::new();
    let statements = files("crates/redrive/sql", &["sql"]);
    assert!(
        statements.len() > 20,
        "only {} statements",
        statements.len()
    );
    for path in &statements {
        let text = read(path);
        for heading in [
            "-- Purpose:",
            "-- Called by:",
            "-- Locks:",
            "-- Index relied on:",
            "-- Rows:",
        ] {
            if !text.contains(heading) {
                troubles.push(format!("{}: no `{heading}`", path.display()));
            }
        }
    }
    let migrations = files("migrations", &["sql"]);
    assert!(
        migrations.len() >= 6,
        "only {} migrations",
        migrations.len()
    );
    for path in &migrations {
        let text = read(path);
        for heading in ["-- Purpose:", "-- Locks:", "-- Safe under", "-- breaking: "] {
            if !text.contains(heading) {
                troubles.push(format!("{}: no `{heading}`", path.display()));
            }
        }
    }
    none(&troubles);
}

#[test]
fn every_sql_file_is_a_statement_of_the_library() {
    let known: Vec<&str> = redrive::statements().map(|(name, _)| name).collect();
    let troubles: Vec<String> = files("crates/redrive/sql", &["sql"])
        .iter()
        .filter_map(|path| {
            path.file_stem()
                .map(|stem| stem.to_string_lossy().into_owned())
        })
        .filter(|stem| !known.contains(&&**stem))
        .map(|stem| format!("{stem}.sql is used by nobody"))
        .collect();
    none(&troubles);
}

#[test]
fn no_test_sleeps() {
    // The players of `tests/chaos` are no tests: they work, and wait for the next fault, in time.
    let files: Vec<PathBuf> = ["tests/it", "tests/src"]
        .into_iter()
        .flat_map(|folder| files(folder, &["rs"]))
        .filter(|path| path.file_name().is_none_or(|name| name != "wait.rs"))
        .collect();
    none(&lines_with(
        &files,
        &[("thread::", "sleep"), ("park_", "timeout")],
    ));
}

#[test]
fn the_library_never_asks_the_clock_of_the_machine_what_time_it_is() {
    let library = files("crates/redrive/src", &["rs"]);
    let asked = lines_with(&library, &[("SystemTime::", "now"), ("Timestamp::", "now")]);
    // The sample job for unit tests of handlers never meets the database.
    let others: Vec<String> = asked
        .into_iter()
        .filter(|line| !line.contains("/job.rs:"))
        .collect();
    none(&others);
}

#[test]
fn the_sql_of_the_library_is_in_its_files() {
    let allowed = ["migrate.rs", "session.rs", "pulse.rs"];
    let files: Vec<PathBuf> = files("crates/redrive/src", &["rs"])
        .into_iter()
        .filter(|path| {
            path.file_name()
                .is_none_or(|name| !allowed.iter().any(|allowed| name == *allowed))
        })
        .collect();
    none(&lines_with(
        &files,
        &[
            ("\"SEL", "ECT "),
            ("\"INS", "ERT "),
            ("\"UPD", "ATE redrive"),
            ("\"DEL", "ETE "),
        ],
    ));
}

#[test]
fn the_words_are_those_of_the_glossary() {
    // In what users read: the public documentation of the library and the files at the root.
    let banned = [
        (" heart", "beat"),
        (" visibility ", "timeout"),
        (" dead ", "job"),
        ("re", "queue"),
        ("re", "play"),
        (" pol", "led"),
        (" call", "back"),
        (" work", " item"),
        (" back", "log of"),
    ];
    let mut troubles = Vec::new();
    for path in files("crates/redrive/src", &["rs"]) {
        for (number, line) in (1..).zip(read(&path).lines()) {
            let comment = line.trim_start();
            if !comment.starts_with("///") && !comment.starts_with("//!") {
                continue;
            }
            let lower = comment.to_lowercase();
            for (head, tail) in banned {
                if lower.contains(&format!("{head}{tail}")) {
                    troubles.push(format!("{}:{number}: `{head}{tail}`", path.display()));
                }
            }
        }
    }
    none(&troubles);
}

#[test]
fn the_tests_that_guard_the_invariants_exist() {
    let architecture = read(&root().join("ARCHITECTURE.md"));
    // Between backquotes, `module::test`; a table row of an invariant begins with `| I`.
    let named: Vec<&str> = architecture
        .lines()
        .filter(|line| line.starts_with("| I"))
        .flat_map(|line| line.split('`').skip(1).step_by(2))
        .filter(|name| name.contains("::"))
        .collect();
    assert!(named.len() > 20, "{named:?}");
    // The scenes of the models are written as a list, each of which becomes a test.
    let models = read(&root().join("tests/models/tests/schedules.rs"));
    let (_, scenes) = models.split_once("scenes!(\n").expect("the scenes");
    let (scenes, _) = scenes.split_once(");").expect("their end");
    let scenes: Vec<&str> = scenes.split(',').map(str::trim).collect();
    let missing: Vec<String> = named
        .into_iter()
        .filter(|name| {
            let (module, test) = name.rsplit_once("::").unwrap_or((name, ""));
            if module == "schedules" {
                return !scenes.contains(&test);
            }
            let file = root().join(format!("tests/it/{}.rs", module.replace("::", "/")));
            !file.exists() || !read(&file).contains(&format!("fn {test}()"))
        })
        .map(|name| format!("ARCHITECTURE.md names `{name}`, which does not exist"))
        .collect();
    none(&missing);
}
