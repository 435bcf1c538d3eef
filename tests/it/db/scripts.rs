//! The scripts for other migration tools: what such a tool does with them, and the files that it reads.

use std::path::{Path, PathBuf};

use redrive::migrate::{Script, after, all};
use redrive_tests::prelude::*;

use super::migrate::{LAST, as_of, is_current, rows_of_schema, with_functions_of};

/// A tool that runs numbered scripts once and writes down which, each in one transaction, as refinery and sqlx do.
struct Tool(Client);

impl Tool {
    fn new(test: &TestDatabase) -> Tool {
        let mut client = test.client();
        client.sql("CREATE TABLE history (number bigint PRIMARY KEY, text text NOT NULL)");
        Tool(client)
    }

    /// Runs one script in a transaction of the tool, which finds its own table by the search path.
    fn run(&mut self, script: &Script) -> Result<(), postgres::Error> {
        let mut tx = self.0.transaction()?;
        tx.batch_execute(&script.sql)?;
        let note = "INSERT INTO history VALUES ($1, $2)";
        tx.execute(note, &[&script.number, &script.sql])?;
        tx.commit()
    }

    fn settings(&mut self) -> Vec<(String, String)> {
        let asked = "SELECT name, setting FROM pg_settings WHERE name NOT LIKE '%.%' ORDER BY name";
        self.0.rows(asked, &[])
    }
}

/// Checks that the schema is the one that `migrate` makes, with the same ledger.
fn is_whole(test: &TestDatabase) {
    is_current(test);
    assert!(test.open().migrate().unwrap().is_empty());
    ran(test, &["migrate", "--check"]).exits_with(0);
}

#[test]
fn the_printed_script_creates_the_same_schema() {
    let test = TestDatabase::empty();
    let mut client = test.client();
    let printed = ran_alone(&["migrate", "--print"]).exits_with(0).out;
    client.sql(&printed);
    is_whole(&test);
    let error = client.batch_execute(&printed).expect_err("it is there");
    has(refusal(&error), "has the schema already");
    client.sql("ROLLBACK");
    is_whole(&test);
}

#[test]
fn a_tool_with_its_own_transactions_creates_the_same_schema_and_finds_its_session_unchanged() {
    let test = TestDatabase::empty();
    let mut tool = Tool::new(&test);
    let settings =
        "SET search_path = public; SET statement_timeout = '9min'; SET check_function_bodies = off";
    tool.0.sql(settings);
    let before = tool.settings();
    for script in all() {
        tool.run(&script).unwrap();
        // As it was within the transaction of the tool, and after it.
        assert_eq!(tool.settings(), before, "{}", script.name);
    }
    is_whole(&test);
    // Repeated by a tool that lost its history, each fails and changes nothing.
    tool.0.sql("TRUNCATE history");
    for script in &all()[..all().len() - 1] {
        let error = tool.run(script).expect_err("it was run");
        let state = error.as_db_error().unwrap().code().code();
        assert!(["42P06", "55000"].contains(&state), "{error:?}");
    }
    is_whole(&test);
}

/// A tool that sends each of them alone would leave a part of a script.
#[test]
fn single_statements_are_refused() {
    let script = &all()[0].sql;
    let (first, _) = script.split_once(";\n").unwrap();
    let error = TestDatabase::empty().client().batch_execute(first);
    let error = error.expect_err("no transaction");
    assert_eq!(error.as_db_error().unwrap().code().code(), "25P01");
}

#[test]
fn an_upgrade_is_what_comes_after_the_last_migration() {
    for version in [1, LAST - 1, LAST] {
        let test = as_of(version);
        let mut tool = Tool::new(&test);
        for script in after(version).unwrap() {
            tool.run(&script).unwrap();
        }
        is_whole(&test);
    }
    // A release that changed functions only.
    let test = with_functions_of("0.0.9");
    let scripts = after(LAST).unwrap();
    assert_eq!(scripts.len(), 1);
    Tool::new(&test).run(&scripts[0]).unwrap();
    is_whole(&test);
    for wrong in [-1, LAST + 1, i32::MAX] {
        assert!(after(wrong).expect_err("no such migration").is_invalid());
    }
}

#[test]
fn a_script_fails_on_a_schema_that_it_does_not_fit() {
    let refused = |test: &TestDatabase, script: &Script, reason: &str| {
        let before = rows_of_schema(test);
        let error = Tool::new(test).run(script).expect_err(reason);
        has(format!("{}: {}", script.name, refusal(&error)), reason);
        assert_eq!(before, rows_of_schema(test));
    };
    let scripts = all();
    let last = scripts.last().unwrap();
    // A gap, and functions before their tables.
    refused(&as_of(1), &scripts[2], "follows migration 2");
    refused(&as_of(LAST - 1), last, &format!("follows migration {LAST}"));
    for newer in ["0.1.1", "0.2.0-rc.1", "1.0.0", "10.0.0"] {
        refused(&with_functions_of(newer), last, "a newer version");
    }
}

/// A folder for files, removed at the end of the test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let name = format!("redrive-scripts-{name}-{}", std::process::id());
        Folder(std::env::temp_dir().join(name))
    }

    fn files(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(&self.0).unwrap();
        let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
        files.sort();
        files
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        _ = fs::remove_dir_all(&self.0);
    }
}

fn split(folder: &Path, arguments: &[&str]) -> Ran {
    let folder = folder.to_str().unwrap();
    let print = ["migrate", "--print", "--split", folder];
    ran_alone(&[&print, arguments].concat())
}

#[test]
fn each_script_is_a_file_that_is_never_overwritten() {
    let folder = Folder::new("each");
    let nested = Folder(folder.0.join("new/folder"));
    let wrote = split(&nested.0, &["--no-transaction", "--json"]).exits_with(0);
    assert_eq!(wrote.lines().len(), all().len());
    let files = nested.files();
    assert!(files[0].ends_with("V0001000000__redrive_0001_types.sql"));
    for (file, script) in files.iter().zip(all()) {
        assert_eq!(fs::read_to_string(file).unwrap(), script.sql);
    }
    let again = split(&nested.0, &["--no-transaction"]).exits_with(0);
    assert!(again.out.is_empty(), "{}", again.out);

    let last = files.last().unwrap();
    fs::remove_file(&files[0]).unwrap();
    fs::write(last, "of another build").unwrap();
    let error = split(&nested.0, &["--no-transaction"]).exits_with(2).err;
    has(error, last.to_str().unwrap());
    assert!(!files[0].exists(), "nothing was written");
    assert_eq!(fs::read_to_string(last).unwrap(), "of another build");

    let test = TestDatabase::empty();
    split(&folder.0, &["--names", "sqlx", "--from", "0"]).exits_with(0);
    let mut files = folder.files();
    files.retain(|path| path.is_file());
    for file in &files {
        test.sql(&fs::read_to_string(file).unwrap());
    }
    assert!(files[0].ends_with("0001000000_redrive_0001_types.sql"));
    is_whole(&test);
}
