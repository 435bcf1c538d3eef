//! Rules for code: no sleeps in tests, no clock and no SQL in the library, no private paths.

use std::path::PathBuf;

use super::{assert_none, files, lines_with, read, shown};

#[test]
fn no_file_names_a_path_of_a_developers_machine() {
    let extensions = ["rs", "sql", "md", "toml", "json", "yml", "yaml", "sh"];
    assert_none(&lines_with(
        &files("", &extensions),
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
fn no_comment_leaves_work_for_later() {
    assert_none(&lines_with(
        &files("", &["rs", "sql", "toml", "sh"]),
        &[("TO", "DO"), ("FIX", "ME"), ("HA", "CK")],
    ));
}

#[test]
fn no_test_sleeps() {
    // The processes of `tests/chaos` are not tests: they work and schedule faults in real time.
    let files: Vec<PathBuf> = ["tests/it", "tests/src"]
        .into_iter()
        .flat_map(|folder| files(folder, &["rs"]))
        .filter(|path| path.file_name().is_none_or(|name| name != "wait.rs"))
        .collect();
    assert_none(&lines_with(
        &files,
        &[("thread::", "sleep"), ("park_", "timeout")],
    ));
}

#[test]
fn the_library_never_reads_the_system_clock() {
    let library = files("crates/redrive/src", &["rs"]);
    let mut offences = lines_with(&library, &[("SystemTime::", "now"), ("Timestamp::", "now")]);
    // A sample for tests of handlers never reaches the database.
    offences.retain(|line| !line.contains("/sample.rs:"));
    assert_none(&offences);
}

#[test]
fn sql_files_are_ascii() {
    // A database may have any encoding, and the error about it should be the first one.
    let sql = files("migrations", &["sql"])
        .into_iter()
        .chain(files("crates/redrive/sql", &["sql"]));
    let offences: Vec<String> = sql
        .filter(|path| !read(path).is_ascii())
        .map(|path| format!("{}: a character is not ASCII", shown(&path)))
        .collect();
    assert_none(&offences);
}

#[test]
fn the_library_keeps_its_sql_in_files() {
    // What sets up a session cannot be a prepared statement.
    let allowed = [
        "connection.rs",
        "connector.rs",
        "migrate.rs",
        // The call of a function.
        "sql.rs",
        "session.rs",
        "renewer.rs",
    ];
    let files: Vec<PathBuf> = files("crates/redrive/src", &["rs"])
        .into_iter()
        .filter(|path| {
            path.file_name()
                .is_none_or(|name| !allowed.iter().any(|allowed| name == *allowed))
        })
        .collect();
    assert_none(&lines_with(
        &files,
        &[
            ("\"SEL", "ECT "),
            ("\"INS", "ERT "),
            ("\"UPD", "ATE redrive"),
            ("\"DEL", "ETE "),
        ],
    ));
}
