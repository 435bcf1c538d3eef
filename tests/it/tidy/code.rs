//! Rules for code: no sleeps in tests, no clock and no SQL in the library, no private paths.

use super::{assert_each, assert_none, files, lines_with, read};

#[test]
fn no_file_names_a_path_of_a_developers_machine() {
    let extensions = ["rs", "sql", "md", "toml", "json", "yml", "yaml", "sh"];
    let private = "../+shared|/tmp+/|/root+/|/home+/|/work+/";
    assert_none(&lines_with(&files("", &extensions), private));
}

#[test]
fn no_comment_leaves_work_for_later() {
    let files = files("", &["rs", "sql", "toml", "sh"]);
    assert_none(&lines_with(&files, "TO+DO|FIX+ME|HA+CK"));
}

#[test]
fn no_test_sleeps() {
    // The processes of `tests/chaos` are not tests: they work and schedule faults in real time.
    let mut files = ["tests/it", "tests/src"]
        .map(|folder| files(folder, &["rs"]))
        .concat();
    files.retain(|path| !path.ends_with("wait.rs"));
    assert_none(&lines_with(&files, "thread::+sleep|park_+timeout"));
}

#[test]
fn the_library_never_reads_the_system_clock() {
    let library = files("crates/redrive/src", &["rs"]);
    let mut offences = lines_with(&library, "SystemTime::+now|Timestamp::+now");
    // A sample for tests of handlers never reaches the database.
    offences.retain(|line| !line.contains("/sample.rs:"));
    assert_none(&offences);
}

#[test]
fn sql_files_are_ascii() {
    // A database may have any encoding, and the error about it should be the first one.
    let sql = ["migrations", "crates/redrive/sql"]
        .map(|folder| files(folder, &["sql"]))
        .concat();
    assert_each(&sql, "a character is not ASCII", |path| {
        read(path).is_ascii()
    });
}

#[test]
fn the_library_keeps_its_sql_in_files() {
    // What sets up a session cannot be a prepared statement.
    let allowed = [
        "connection.rs",
        "migrate.rs",
        "migrate/script.rs",
        "pool.rs",
        // The call of a function.
        "sql.rs",
        "session.rs",
        "renewer.rs",
    ];
    let mut files = files("crates/redrive/src", &["rs"]);
    files.retain(|path| !allowed.iter().any(|allowed| path.ends_with(allowed)));
    let statements = "\"SEL+ECT |\"INS+ERT |\"UPD+ATE redrive|\"DEL+ETE ";
    assert_none(&lines_with(&files, statements));
}
