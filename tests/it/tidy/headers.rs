//! Headers: each source file says what it is, each SQL file what it does and locks.

use std::path::{Path, PathBuf};

use super::{assert_each, files, read, shown};

#[test]
fn every_source_file_begins_with_a_module_comment() {
    assert_each(&files("", &["rs"]), "does not begin with `//!`", |path| {
        let text = read(path);
        text.starts_with("//!") || text.starts_with("#![doc")
    });
}

#[test]
fn every_sql_file_has_its_header() {
    let migrations = files("migrations", &["sql"]).into_iter();
    let (definitions, migrations): (Vec<_>, Vec<_>) =
        migrations.partition(|path| shown(path).matches('/').count() > 1);
    let statements = files("crates/redrive/sql", &["sql"]);
    let locking = statements
        .iter()
        .filter(|path| read(path).contains("FOR UPDATE"));
    let locking: Vec<_> = locking.cloned().collect();
    // The first ten create everything, before any version ran.
    let is_later = |path: &&PathBuf| shown(path).as_str() > "migrations/0011";
    let changes: Vec<_> = migrations.iter().filter(is_later).cloned().collect();
    for (files, least, headings) in [
        (statements, 21, ["-- Purpose:", "-- Rows:"].as_slice()),
        (locking, 5, &["-- Locks:"]),
        (migrations, 6, &["-- Purpose:", "-- breaking: "]),
        (changes, 0, &["-- Locks:", "-- Safe while"]),
        (definitions, 21, &["-- Purpose:"]),
    ] {
        assert!(files.len() >= least, "{} files", files.len());
        for heading in headings {
            let is_there = |path: &Path| read(path).contains(heading);
            assert_each(&files, &format!("no `{heading}`"), is_there);
        }
    }
}

#[test]
fn every_file_of_the_migrations_is_applied() {
    let scripts = redrive::migrate::all();
    let is_applied = |path: &Path| {
        let text = read(path);
        scripts.iter().any(|script| script.sql.contains(&text))
    };
    let files = files("migrations", &["sql"]);
    assert_each(&files, "the library does not apply it", is_applied);
}

#[test]
fn every_sql_file_is_a_statement_of_the_library() {
    let known: Vec<&str> = redrive::statements().map(|(name, ..)| name).collect();
    let statements = files("crates/redrive/sql", &["sql"]);
    assert_each(&statements, "the library does not use it", |path| {
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        known.contains(&&*name)
    });
    // A copy of a file in a second folder has a known name too. Calls of functions have no file.
    let calls =
        redrive::statements().filter(|(_, text, _)| text.starts_with("SELECT * FROM redrive."));
    assert_eq!(statements.len() + calls.count(), known.len());
}
