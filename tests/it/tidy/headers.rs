//! Headers: each source file says what it is, each SQL file what it does and locks.

use std::path::Path;

use super::{assert_none, files, read, shown};

#[test]
fn every_source_file_begins_with_a_module_comment() {
    let offences: Vec<String> = files("", &["rs"])
        .iter()
        .filter(|path| {
            let text = read(path);
            !text.starts_with("//!") && !text.starts_with("#![doc")
        })
        .map(|path| format!("{}: does not begin with `//!`", shown(path)))
        .collect();
    assert_none(&offences);
}

fn missing<'a>(path: &'a Path, headings: &'a [&str]) -> impl Iterator<Item = String> + 'a {
    let text = read(path);
    headings
        .iter()
        .filter(move |heading| !text.contains(&***heading))
        .map(|heading| format!("{}: no `{heading}`", shown(path)))
}

#[test]
fn every_sql_file_has_its_header() {
    let statements = files("crates/redrive/sql", &["sql"]);
    assert!(statements.len() > 20, "{} statements", statements.len());
    let (definitions, migrations): (Vec<_>, Vec<_>) = files("migrations", &["sql"])
        .into_iter()
        .partition(|path| shown(path).matches('/').count() > 1);
    assert!(migrations.len() >= 6, "{} migrations", migrations.len());
    assert!(definitions.len() > 20, "{} definitions", definitions.len());
    let of_statements = ["-- Purpose:", "-- Rows:"];
    let of_migrations = ["-- Purpose:", "-- Locks:", "-- Safe while", "-- breaking: "];
    let of_each = statements
        .iter()
        .flat_map(|path| missing(path, &of_statements));
    let mut offences: Vec<String> = of_each.collect();
    let of_locking = statements
        .iter()
        .filter(|path| read(path).contains("FOR UPDATE"));
    offences.extend(of_locking.flat_map(|path| missing(path, &["-- Locks:"])));
    let of_migrations = migrations
        .iter()
        .flat_map(|path| missing(path, &of_migrations));
    offences.extend(of_migrations);
    let of_definitions = definitions
        .iter()
        .flat_map(|path| missing(path, &of_statements[..1]));
    offences.extend(of_definitions);
    assert_none(&offences);
}

#[test]
fn every_file_of_the_migrations_is_applied() {
    let script = redrive::migrate::print();
    let offences: Vec<String> = files("migrations", &["sql"])
        .iter()
        .filter(|path| !script.contains(&read(path)))
        .map(|path| format!("{}: the library does not apply it", shown(path)))
        .collect();
    assert_none(&offences);
}

#[test]
fn every_sql_file_is_a_statement_of_the_library() {
    let known: Vec<&str> = redrive::statements().map(|(name, _)| name).collect();
    let statements = files("crates/redrive/sql", &["sql"]);
    let offences: Vec<String> = statements
        .iter()
        .filter(|path| {
            path.file_stem()
                .is_none_or(|stem| !known.contains(&&*stem.to_string_lossy()))
        })
        .map(|path| format!("{}: the library does not use it", shown(path)))
        .collect();
    assert_none(&offences);
    // A copy of a file in a second folder has a known name too. Calls of functions have no file.
    let calls =
        redrive::statements().filter(|(_, text)| text.starts_with("SELECT * FROM redrive."));
    assert_eq!(statements.len() + calls.count(), known.len());
}
