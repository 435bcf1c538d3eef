//! `--json`: one vocabulary for every command.

use std::fmt::Write as _;

use redrive_tests::prelude::*;

use super::with_letters;
use crate::commands::{EXAMPLES, Example};

/// Objects whose names are those of the user or of another vocabulary.
const OPAQUE: &[&str] = &["payload", "headers", "filter", "about", "before", "after"];

/// Adds the names in a line to those found, and tells which of them have a value of another type
/// than everywhere else.
fn collect(value: &Value, above: &str, names: &mut BTreeSet<String>, troubles: &mut Vec<String>) {
    let Value::Object(object) = value else {
        let items = value.as_array().into_iter().flatten();
        items.for_each(|item| collect(item, above, names, troubles));
        return;
    };
    for (name, value) in object {
        let path = format!("{above}{name}");
        let is_right = match name.rsplit('_').next() {
            // Letters are exported as they are in the database.
            Some("at") => value.as_str().is_some_and(|text| {
                above.starts_with("letter.") || (text.len() == 24 && text.ends_with('Z'))
            }),
            Some("ms") => value.is_number(),
            Some("seconds") => false,
            _ => true,
        };
        if !is_right && !value.is_null() {
            troubles.push(format!("{path} is {value}"));
        }
        if !OPAQUE.contains(&&**name) {
            collect(value, &format!("{path}."), names, troubles);
        }
        names.insert(path);
    }
}

/// What the examples of all commands printed.
#[derive(Debug, Default)]
pub(crate) struct Printed {
    names: Vec<(Example, BTreeSet<String>)>,
    troubles: Vec<String>,
}

impl Printed {
    /// Notes what an example printed.
    pub(crate) fn note(&mut self, example: Example, ran: &Ran) {
        let mut names = BTreeSet::new();
        let mut wrong = Vec::new();
        if ran.out.is_empty() && ran.err.is_empty() {
            wrong.push("nothing printed".to_owned());
        }
        for text in ran.out.lines() {
            match serde_json::from_str(text) {
                Ok(value @ Value::Object(_)) => {
                    if value.get("action").is_some() && !value["dry_run"].is_boolean() {
                        wrong.push(format!("dry_run is {}", value["dry_run"]));
                    }
                    collect(&value, "", &mut names, &mut wrong);
                }
                other => wrong.push(format!("{text} is no object: {other:?}")),
            }
        }
        for text in ran.err.lines() {
            let line: Option<Value> = serde_json::from_str(text).ok();
            let is_one = |name| line.as_ref().is_some_and(|line| line[name].is_string());
            if !["message", "more", "error"].into_iter().any(is_one) {
                wrong.push(format!("{text} on stderr"));
            }
        }
        let told = wrong
            .iter()
            .map(|wrong| format!("{}: {wrong}", example.line));
        self.troubles.extend(told);
        self.names.push((example, names));
    }

    /// Every line is an object with the names of its example.
    #[track_caller]
    pub(crate) fn check(self) {
        assert!(self.troubles.is_empty(), "\n{}", self.troubles.join("\n"));
        if std::env::var_os("REDRIVE_UPDATE_SNAPSHOTS").is_some() {
            return write(&self.names);
        }
        for (example, names) in &self.names {
            assert_eq!(names, &example.names, "{}: see {EXAMPLES}", example.line);
        }
    }
}

/// Writes the names that were printed to the file of the examples.
fn write(printed: &[(Example, BTreeSet<String>)]) {
    let file = fs::read_to_string(EXAMPLES).expect("the examples");
    let head = file.lines().take_while(|line| line.starts_with('#'));
    let mut text: String = head.flat_map(|line| [line, "\n"]).collect();
    for (Example { role, line, .. }, names) in printed {
        write!(text, "\n{role:<8} {line}").expect("a text");
        let mut column = usize::MAX;
        for name in names {
            column = column.saturating_add(name.len() + 1);
            if column > 100 {
                text.push_str("\n   ");
                column = 3 + name.len();
            }
            write!(text, " {name}").expect("a text");
        }
        text.push('\n');
    }
    fs::write(EXAMPLES, text).expect("write the examples");
}

#[test]
fn errors_and_further_items_are_objects() {
    let (db, ..) = with_letters(3);
    let told = |ran: &Ran| -> Value { serde_json::from_str(ran.err.trim()).expect("an object") };
    db.run("dlq list --limit 3 --json").warns_not();
    let some = db.run("dlq list --limit 2 --json");
    let last = &some.lines()[1]["id"];
    assert_eq!(told(&some), json!({ "more": format!("--after {last}") }));
    let error = told(&db.fails(2, "dlq list colour=red --json"));
    has(error["error"].as_str().expect("a text"), "unknown field");
    let error = told(&db.fails(2, "dlq list --limitt 2 --json"));
    let unexpected = "unexpected argument '--limitt' found";
    assert_eq!(error["error"].as_str(), Some(unexpected));
    for line in ["dlq show 1 --raw", "migrate --print"] {
        let error = told(&db.fails(2, format!("{line} --json")));
        let text = error["error"].as_str().expect("a text");
        has(text, "cannot be used with --json");
    }
    let message = told(&db.fails(1, "dlq list class=Nothing --json"));
    assert!(message["message"].is_string(), "{message}");
}

#[test]
fn a_bulk_command_that_matches_nothing_answers_with_0_and_says_why() {
    let db = TestDatabase::migrated();
    for (command, names) in [
        ("dlq redrive orders", "letters"),
        ("dlq discard orders --reason x", "letters"),
        ("dlq reopen orders", "letters"),
        ("dlq edit orders --merge {}", "letters"),
        ("dlq edit audit=4 --undo", "letters"),
        ("dlq deliver orders --exec true", "letters"),
        ("dlq archive restore orders", "letters"),
        ("dlq archive delete orders", "letters"),
        ("dlq groups ack class=Nothing", "groups"),
        ("redact apply orders", "letters"),
        ("job cancel orders", "jobs"),
        ("job edit orders --merge {}", "jobs"),
    ] {
        for (yes, is_dry_run) in [("", true), (" --yes", false)] {
            let ran = db.fails(1, format!("{command}{yes} --json"));
            ran.holds(&json!({names: 0, "dry_run": is_dry_run}));
            assert_eq!(ran.lines().len(), 1, "{command}{yes}: {}", ran.out);
            assert!(ran.err.contains("message"), "{command}{yes}: {}", ran.err);
        }
    }
    db.fails(1, "dlq edit audit=4 --undo --yes")
        .tells("neither died again nor been changed since");
    for (command, names) in [
        ("dlq edit 99 --merge {}", "letters"),
        ("dlq discard 99 --reason x", "letters"),
        ("dlq redrive 99", "letters"),
        ("job cancel 99", "jobs"),
        ("job priority 4 99", "jobs"),
    ] {
        let skipped = json!([{"reason": "gone", names: 1, "ids": [99]}]);
        db.fails(1, format!("{command} --json"))
            .holds(&json!({names: 0, "dry_run": false, "skipped": skipped}));
    }
}
