//! The snapshots of the schema: what the migrations create, as one readable file and as a list of objects.

use std::fs;
use std::path::Path;
use std::process::Command;

use redrive_tests::TestDatabase;

const SNAPSHOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../migrations/schema.sql");
const UPDATE: &str = "REDRIVE_UPDATE_SNAPSHOTS";
/// The dump's text differs between major versions, so the snapshot belongs to one of them.
const MAJOR: i32 = 15;

#[test]
fn the_schema_snapshot_is_what_the_migrations_create() {
    let test = TestDatabase::migrated();
    let row = test
        .client()
        .query_one(
            "SELECT setting, current_setting('server_version_num')::integer / 10000
             FROM pg_config WHERE name = 'BINDIR'",
            &[],
        )
        .unwrap();
    let (programs, major): (String, i32) = (row.get(0), row.get(1));
    if major != MAJOR {
        return;
    }
    let dump = Command::new(Path::new(&programs).join("pg_dump"))
        .args(["--schema-only", "--no-owner", "--no-privileges"])
        .args(["--schema=redrive", "--dbname", test.url()])
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&dump.stderr);
    assert!(dump.status.success(), "pg_dump failed: {errors}");
    let schema = normalized(&String::from_utf8(dump.stdout).unwrap());

    if std::env::var_os(UPDATE).is_some() {
        fs::write(SNAPSHOT, &schema).unwrap();
    }
    let snapshot = fs::read_to_string(SNAPSHOT).unwrap_or_default();
    let difference = snapshot
        .lines()
        .zip(schema.lines())
        .position(|(old, new)| old != new);
    assert!(
        snapshot == schema,
        "migrations/schema.sql is out of date from line {}; update it with\n    \
         {UPDATE}=1 cargo nextest run -p redrive-tests schema_snapshot",
        difference.unwrap_or_else(|| snapshot.lines().count().min(schema.lines().count())) + 1
    );
}

const OBJECTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../migrations/objects.tsv");
const LIST: &str = include_str!("../../../crates/redrive/sql/db/schema_objects.sql");

#[test]
fn the_list_of_objects_is_what_the_migrations_create_on_every_version() {
    let test = TestDatabase::migrated();
    let mut client = test.client();
    client
        .batch_execute("SET search_path = pg_catalog, pg_temp")
        .unwrap();
    let mut objects = String::new();
    for row in client.query(LIST, &[]).unwrap() {
        let (object, definition): (&str, &str) = (row.get(0), row.get(1));
        objects.extend([object, "\t", definition, "\n"]);
    }
    if std::env::var_os(UPDATE).is_some() {
        fs::write(OBJECTS, &objects).unwrap();
    }
    let expected = fs::read_to_string(OBJECTS).unwrap_or_default();
    let (expected, objects): (Vec<_>, Vec<_>) =
        (expected.lines().collect(), objects.lines().collect());
    let only = |these: &[&str], others: &[&str]| -> Vec<String> {
        let missing = these.iter().filter(|line| !others.contains(line));
        missing.map(ToString::to_string).collect()
    };
    assert!(
        expected == objects,
        "migrations/objects.tsv is out of date; update it with\n    \
         {UPDATE}=1 cargo nextest run -p redrive-tests schema_snapshot\nonly there: {:#?}\nnew: {:#?}",
        only(&expected, &objects),
        only(&objects, &expected)
    );
}

/// Removes what depends on the version and the session of `pg_dump`.
fn normalized(dump: &str) -> String {
    const DROPPED: [&str; 6] = [
        "\\restrict ",
        "\\unrestrict ",
        "SET ",
        "SELECT pg_catalog.set_config",
        "-- Dumped ",
        "-- PostgreSQL database dump",
    ];
    let mut text = format!(
        "-- The schema as the migrations create it, dumped from PostgreSQL {MAJOR}. A test keeps it\n\
         -- up to date; see README.md. Do not edit it.\n"
    );
    let kept = dump
        .lines()
        .filter(|line| *line != "--" && !DROPPED.iter().any(|start| line.starts_with(start)));
    let mut was_blank = false;
    for line in kept {
        let is_blank = line.is_empty();
        if !(is_blank && was_blank) {
            text.push_str(&line.replace('\t', "    "));
            text.push('\n');
        }
        was_blank = is_blank;
    }
    text.truncate(text.trim_end().len());
    text.push('\n');
    text
}
