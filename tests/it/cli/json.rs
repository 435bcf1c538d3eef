//! `--json`: one vocabulary for every command, which the schema of the crate describes.

use redrive_tests::{TestDatabase, ran};
use serde_json::{Value, json};

use super::{Payloads, letters};

/// Commands, and the definitions of the lines that they may print. The test replaces `LETTER`,
/// `JOB` and `FILE`.
const COMMANDS: &[(&str, &[&str])] = &[
    ("migrate", &["migration", "schema_state"]),
    ("migrate --check", &["schema_state"]),
    ("enqueue live order {}", &["enqueued"]),
    ("enqueue live order {} --unique k", &["enqueued"]),
    ("enqueue live order --file FILE", &["enqueued_file"]),
    ("work idle --exec true --drain", &["worked"]),
    ("stats", &["queue"]),
    ("job show JOB", &["job"]),
    ("job set JOB --priority 3", &["changed_job"]),
    ("breaker open gateway", &["changed_breaker"]),
    ("breaker list", &["breaker"]),
    ("dlq", &["overview"]),
    ("breaker close gateway", &["changed_breaker"]),
    ("dlq ls", &["class_count"]),
    ("dlq ls exit:65 2", &["letter"]),
    ("dlq list orders --limit 3", &["letter"]),
    ("dlq show LETTER", &["letter"]),
    ("dlq groups", &["group"]),
    ("dlq groups orders died<1h", &["group"]),
    ("dlq groups show 1", &["group"]),
    (
        "dlq groups show 1 --by payload.order --limit 2",
        &["property_count"],
    ),
    ("dlq groups ack class=exit:65", &["group_dry_run"]),
    ("dlq groups ack class=exit:65 --yes", &["group"]),
    ("dlq groups note 1 known", &["group"]),
    ("dlq groups own 1 payments", &["group"]),
    ("dlq validate orders --exec true", &["validation"]),
    (
        "dlq validate orders --exec true --passing",
        &["validated_letter"],
    ),
    (
        "dlq edit orders --merge {\"a\":1}",
        &["edited_letter", "dry_run"],
    ),
    ("dlq edit orders --merge {\"a\":1} --yes", &["action"]),
    ("dlq edit orders --undo", &["dry_run"]),
    ("dlq edit orders --undo --yes", &["action"]),
    ("dlq edit LETTER --restore 1", &["restored_letter"]),
    ("dlq redrive orders --limit 1", &["dry_run"]),
    ("dlq redrive orders --limit 1 --detach --yes", &["run"]),
    ("dlq runs list", &["run"]),
    ("dlq runs show 1", &["run"]),
    ("dlq runs show 1 --letters", &["run_letter"]),
    ("dlq runs pause 1", &["run"]),
    ("dlq runs resume 1 --detach", &["run"]),
    ("dlq runs cancel 1", &["run"]),
    ("dlq deliver orders --limit 1 --exec true", &["dry_run"]),
    (
        "dlq deliver orders --limit 1 --exec true --yes",
        &["delivered_letter", "action"],
    ),
    ("dlq discard orders --limit 1 --reason x", &["dry_run"]),
    ("dlq discard orders --limit 1 --reason x --yes", &["action"]),
    ("dlq reopen orders", &["dry_run"]),
    ("dlq reopen orders --yes", &["action"]),
    ("dlq redrive --id LETTER 999999", &["action"]),
    ("dlq discard --id 999999 --reason x", &["action"]),
    ("dlq capture kafka 1 orders order FILE", &["captured"]),
    ("dlq capture --file FILE", &["capture_counts"]),
    ("dlq export orders --limit 1", &["capture_line"]),
    ("dlq archive list", &["archived_letter"]),
    ("dlq archive export", &["capture_line"]),
    (
        "dlq policies set nightly orders --every 6h",
        &["changed_policy"],
    ),
    ("dlq policies set all --all", &["changed_policy"]),
    ("dlq policies list", &["policy"]),
    ("dlq policies pause nightly", &["changed_policy"]),
    ("dlq policies remove nightly", &["changed_policy"]),
    ("prune --older-than 1d", &["dry_run"]),
    ("prune --older-than 1d --yes", &["action"]),
    ("dlq retention set recovered 30d", &["retention_rule"]),
    ("dlq retention list", &["retention_rule"]),
    ("prune", &["retention_rule"]),
    ("dlq retention remove recovered", &["removed_rule"]),
    ("redact add --path /order", &["redaction"]),
    ("redact list", &["redaction"]),
    ("redact apply", &["dry_run"]),
    ("redact apply --yes", &["action"]),
    ("redact remove 1", &["removed_redaction"]),
    ("audit --limit 5", &["audit_record"]),
    ("audit counters", &["counter"]),
    ("job cancel JOB", &["changed_job"]),
    ("gameday", &["gameday_step"]),
    ("gameday --jobs 2 --yes", &["gameday_step"]),
];

/// Lines that a command may print to stderr.
const MESSAGES: &[&str] = &["message", "more", "error"];

/// Returns the schema of the crate.
fn schema() -> Value {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../crates/redrive-cli/json-schema/output.schema.json"
    );
    let text = std::fs::read_to_string(path).expect("the schema");
    serde_json::from_str(&text).expect("JSON")
}

/// A validator of lines with one of several definitions.
fn validator(definitions: &[&str]) -> jsonschema::Validator {
    let references: Vec<Value> = definitions
        .iter()
        .map(|name| json!({ "$ref": format!("#/$defs/{name}") }))
        .collect();
    let mut schema = schema();
    schema["anyOf"] = references.into();
    jsonschema::validator_for(&schema).expect("a schema")
}

#[test]
fn every_line_of_every_command_is_described_by_the_schema() {
    let db = TestDatabase::migrated();
    let letter = letters(&db, &db.queue("orders"), 6)[0].to_string();
    let file = Payloads::new(&db, 2, None);
    let messages = validator(MESSAGES);
    let archived = "INSERT INTO redrive.archived_letters (id, queue, letter) VALUES (-1, 'orders', \
         '{\"kind\": \"order\", \"state\": \"recovered\", \"error_class\": \"E\", \"error_message\": \"\"}')";
    db.client()
        .batch_execute(archived)
        .expect("an archived letter");
    let (mut job, mut troubles) = (String::new(), Vec::new());
    for (line, definitions) in COMMANDS {
        let arguments = line.split(' ').map(|word| match word {
            "LETTER" => &*letter,
            "JOB" => &*job,
            "FILE" => file.path(),
            word => word,
        });
        let arguments: Vec<&str> = arguments.chain(["--json"]).collect();
        let ran = ran(&db, &arguments);
        let expected = validator(definitions);
        let mut check = |text: &str, validator: &jsonschema::Validator| {
            let Ok(object) = serde_json::from_str::<Value>(text) else {
                troubles.push(format!("{line}: not JSON: {text}"));
                return;
            };
            if !validator.is_valid(&object) {
                troubles.push(format!("{line}: not described: {text}"));
            }
        };
        for text in ran.out.lines() {
            check(text, &expected);
        }
        for text in ran.err.lines() {
            check(text, &messages);
        }
        if ran.code == std::process::ExitCode::from(2) || ran.out.is_empty() {
            troubles.push(format!("{line}: nothing printed: {}", ran.err));
        }
        if job.is_empty() && line.starts_with("enqueue") {
            job = ran.lines()[0]["id"].to_string();
        }
    }
    assert!(troubles.is_empty(), "\n{}", troubles.join("\n"));
    let migrated = ran(&TestDatabase::empty(), &["migrate", "--json"]).exits_with(0);
    let expected = validator(&["migration", "schema_state"]);
    assert!(migrated.lines().iter().all(|line| expected.is_valid(line)));
}

#[test]
fn the_schema_describes_nothing_that_is_not_printed() {
    let schema = schema();
    let text = schema.to_string();
    let printed = COMMANDS
        .iter()
        .flat_map(|(_, definitions)| definitions.iter());
    let printed: Vec<&str> = printed.chain(MESSAGES).copied().collect();
    let definitions = schema["$defs"].as_object().expect("definitions").keys();
    let unused: Vec<&String> = definitions
        .filter(|name| !printed.contains(&&***name))
        .filter(|name| !text.contains(&format!("#/$defs/{name}\"")))
        .collect();
    assert!(unused.is_empty(), "{unused:?}");
}

#[test]
fn errors_and_further_items_are_objects() {
    let db = TestDatabase::migrated();
    letters(&db, &db.queue("orders"), 3);
    let some = ran(&db, &["dlq", "list", "--limit", "2", "--json"]).exits_with(0);
    let more: Value = serde_json::from_str(some.err.trim()).expect("an object");
    let last = &some.lines()[1]["id"];
    assert_eq!(more, json!({ "more": format!("--after {last}") }));
    let wrong = ran(&db, &["dlq", "list", "colour=red", "--json"]).exits_with(2);
    let error: Value = serde_json::from_str(wrong.err.trim()).expect("an object");
    let error = error["error"].as_str().expect("a text");
    assert!(error.contains("unknown field"), "{error}");
    let none = ran(&db, &["dlq", "list", "class=Nothing", "--json"]).exits_with(1);
    let message: Value = serde_json::from_str(none.err.trim()).expect("an object");
    assert!(message["message"].is_string(), "{message}");
}
