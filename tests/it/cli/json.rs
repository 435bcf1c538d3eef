//! `--json`: one vocabulary for every command, which the schema of the crate describes.

use std::time::Duration;

use redrive::dlq::runs::RunOptions;
use redrive::dlq::{LetterFilter, LetterState, Protection, RetentionRule};
use redrive::{JobId, Operator};
use redrive_tests::{TestDatabase, ran};
use serde_json::{Value, json};

use super::{Payloads, letters};

/// Commands, and the definitions of the lines that they may print. The test replaces `LETTER`,
/// `ARCHIVED`, `GROUP`, `JOB` and `FILE`.
const COMMANDS: &[(&str, &[&str])] = &[
    ("migrate", &["migration", "schema_state"]),
    ("migrate --check", &["schema_state"]),
    ("enqueue live order {}", &["enqueued"]),
    ("enqueue live order {} --unique k", &["enqueued"]),
    ("enqueue live order --file FILE", &["enqueued_file"]),
    ("work idle --exec true --drain", &["worked"]),
    ("stats", &["queue"]),
    ("job show JOB", &["job"]),
    ("job list", &["job"]),
    ("job list live --limit 1", &["job"]),
    ("job set JOB --priority 3", &["changed_job"]),
    ("job priority 4 JOB", &["changed_job"]),
    ("job priority 4 live", &["job_dry_run"]),
    ("job priority 4 live --yes", &["job_action"]),
    ("job run-now live", &["job_dry_run"]),
    ("job run-now live --yes", &["job_action"]),
    (
        "job edit live --merge {\"a\":1}",
        &["edited_letter", "job_dry_run"],
    ),
    ("job edit live --merge {\"a\":1} --yes", &["job_action"]),
    ("job edit live --exec false --yes", &["job_action"]),
    ("job cancel live", &["job_dry_run"]),
    ("job cancel live unique=k --yes", &["job_action"]),
    ("queue pause orders --for 1h --reason x", &["changed_queue"]),
    ("queue list", &["queue_state"]),
    (
        "queue limit orders --kind mail --rate 5/m --reason x",
        &["changed_rate_limit"],
    ),
    ("queue limits", &["rate_limit"]),
    ("queue groups held orders", &["held_group"]),
    (
        "queue groups release orders g --reason x",
        &["released_group"],
    ),
    (
        "queue groups set orders limit=3 --reason x",
        &["group_policy"],
    ),
    ("queue groups show orders", &["group_policy"]),
    ("queue unlimit orders --kind mail", &["removed_rate_limit"]),
    ("breaker open gateway", &["changed_breaker"]),
    ("breaker list", &["breaker"]),
    ("dlq", &["overview"]),
    ("dlq redrive orders --limit 2", &["dry_run"]),
    ("queue resume orders", &["changed_queue"]),
    ("breaker close gateway", &["changed_breaker"]),
    ("dlq ls", &["class_count"]),
    ("dlq ls exit:65 2", &["letter"]),
    ("dlq list orders --limit 3", &["letter"]),
    ("dlq show LETTER", &["letter"]),
    ("dlq groups", &["group"]),
    ("dlq groups orders age<1h", &["group"]),
    ("dlq groups list --all", &["group"]),
    ("dlq groups show 1", &["group"]),
    (
        "dlq groups show 1 --by payload.order --limit 2",
        &["property_count"],
    ),
    ("dlq groups ack class=exit:65", &["group_dry_run"]),
    ("dlq groups ack class=exit:65 --yes", &["group"]),
    ("dlq groups note 1 known", &["group"]),
    ("dlq groups own 1 payments", &["group"]),
    ("dlq groups resolve 1", &["group"]),
    ("dlq groups ignore 1", &["group"]),
    ("dlq groups reopen 1", &["group"]),
    (
        "dlq groups split GROUP --by payload.tenant",
        &["regrouping"],
    ),
    (
        "dlq groups split GROUP --by payload.tenant --yes",
        &["regrouped"],
    ),
    ("dlq groups merge GROUP 1", &["regrouping"]),
    ("dlq groups merge GROUP 1 --yes", &["regrouped"]),
    ("dlq groups rules list", &["group_rule"]),
    ("dlq groups rules apply 1", &["regrouped"]),
    ("dlq groups rules remove 1", &["removed"]),
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
    ("dlq runs approve 1", &["run"]),
    ("dlq runs pause 1", &["run"]),
    ("dlq runs resume 1 --detach", &["run"]),
    ("dlq runs cancel 1", &["run"]),
    ("dlq runs watch 1", &["run"]),
    (
        "dlq protection set orders --approve-above 9",
        &["protection"],
    ),
    ("dlq protection list", &["protection"]),
    ("dlq protection remove orders", &["removed_protection"]),
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
    ("dlq archive list --limit 1", &["archived_letter"]),
    ("dlq archive show ARCHIVED", &["archived_letter"]),
    ("dlq archive export", &["capture_line"]),
    ("dlq archive restore old", &["dry_run"]),
    ("dlq archive restore --id ARCHIVED 999999", &["action"]),
    ("dlq archive restore old --limit 1 --yes", &["action"]),
    ("dlq archive delete old", &["dry_run"]),
    ("dlq archive delete old --yes", &["action"]),
    (
        "dlq policies set nightly orders --every 6h",
        &["changed_policy"],
    ),
    ("dlq policies set all --all", &["changed_policy"]),
    ("dlq policies list", &["policy"]),
    ("dlq policies pause nightly", &["changed_policy"]),
    ("dlq policies resume nightly", &["changed_policy"]),
    ("dlq policies remove nightly", &["changed_policy"]),
    (
        "schedule set nightly live order {} --cron @daily",
        &["set_schedule"],
    ),
    (
        "schedule set hourly live order {} --every 1h --dry-run",
        &["set_schedule"],
    ),
    ("schedule list", &["schedule"]),
    ("schedule show nightly", &["schedule"]),
    ("schedule pause nightly", &["changed_schedule"]),
    ("schedule resume nightly", &["changed_schedule"]),
    ("schedule trigger nightly", &["triggered_schedule"]),
    ("schedule history nightly", &["schedule_tick"]),
    ("schedule remove nightly", &["changed_schedule"]),
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
    ("redact remove 1", &["removed"]),
    ("audit --limit 5", &["audit_record"]),
    ("audit counters", &["counter"]),
    ("repair", &["repair"]),
    ("repair --yes", &["repair"]),
    ("prune --audit --older-than 30d", &["pruned_audit"]),
    ("prune --audit --older-than 30d --yes", &["pruned_audit"]),
    ("job cancel JOB", &["changed_job"]),
    ("erase payload.order=2", &["erasure"]),
    ("erase payload.order=2 --yes", &["erasure"]),
    ("erase payload.order=2 --yes", &["erasure"]),
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

/// Archives the letters of the queue `old`, and returns one of them.
fn archived(db: &TestDatabase) -> JobId {
    let old = db.queue("old");
    let letters = letters(db, &old, 3);
    let operator = Operator::new("maria");
    let dlq = old.database().dlq();
    let rule = RetentionRule::archive(LetterState::Open, Duration::ZERO).queue("old");
    dlq.retention().set(&rule, &operator).expect("a rule");
    let moved = dlq.retention().apply(&operator).expect("an archive");
    assert_eq!(moved, 3);
    let removed = dlq
        .retention()
        .remove(Some("old"), LetterState::Open, &operator);
    assert!(removed.expect("a rule"));
    letters[0]
}

/// Captures a failure of a tenant, and returns its group.
fn group(db: &TestDatabase) -> String {
    let capture = "SELECT redrive.capture('s', '1', 'mail', 'mail', convert_to($1, 'UTF8'))";
    let mut client = db.client();
    client
        .execute(capture, &[&r#"{"tenant": "acme"}"#])
        .expect("a letter");
    let group = "SELECT group_id FROM redrive.dead_letters WHERE queue = 'mail'";
    let row = client.query_one(group, &[]).expect("a letter");
    row.get::<_, i64>(0).to_string()
}

/// Creates the run 1, which waits for the approval of a second operator.
fn unapproved_run(db: &TestDatabase) {
    let queue = db.queue("payments");
    letters(db, &queue, 1);
    let maria = Operator::new("maria");
    let dlq = queue.database().dlq();
    let protection = Protection::new("payments").approve_above(0);
    dlq.protect(&protection, &maria).expect("a protection");
    let filter = LetterFilter::new().queue("payments");
    let run = dlq.runs().create(&filter, &RunOptions::new(), &maria);
    assert_eq!(run.expect("a run").expect("a letter").id.get(), 1);
}

#[test]
fn no_command_is_forgotten() {
    let db = TestDatabase::empty();
    let (mut paths, mut commands) = (vec![String::new()], 0);
    let mut forgotten = Vec::new();
    while let Some(path) = paths.pop() {
        let arguments: Vec<&str> = path.split_whitespace().chain(["--help"]).collect();
        let help = ran(&db, &arguments).exits_with(0);
        let subcommands = subcommands(&help.out);
        if subcommands.is_empty() {
            commands += 1;
            let is_run = |(line, _): &(&str, &[&str])| format!("{line} ").starts_with(&*path);
            if !COMMANDS.iter().any(is_run) {
                forgotten.push(path);
            }
        } else {
            paths.extend(subcommands.iter().map(|name| format!("{path}{name} ")));
        }
    }
    assert!(forgotten.is_empty(), "{forgotten:?}");
    assert!(commands > 60, "{commands}");
}

/// Returns the names of the subcommands in a help text.
fn subcommands(help: &str) -> Vec<&str> {
    let lines = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let lines = lines.take_while(|line| !line.is_empty());
    let names = lines.filter_map(|line| line.strip_prefix("  ")?.split(' ').next());
    let is_name = |name: &&str| !name.is_empty() && *name != "help";
    names.filter(is_name).collect()
}

#[test]
fn every_line_of_every_command_is_described_by_the_schema() {
    let db = TestDatabase::migrated();
    let letter = letters(&db, &db.queue("orders"), 6)[0].to_string();
    let messages = validator(MESSAGES);
    let archived = archived(&db).to_string();
    let group = group(&db);
    unapproved_run(&db);
    let holds = "INSERT INTO redrive.group_slots (queue, group_key, slot, job_id, held_at) \
        SELECT 'orders', 'g', 1, min(l.id), now() FROM redrive.dead_letters l WHERE l.queue = 'orders'";
    db.client().batch_execute(holds).unwrap();
    let fault =
        "INSERT INTO redrive.unique_keys (queue, key, job_id) VALUES ('orders', 'left', -1)";
    db.client().batch_execute(fault).unwrap();
    // Making letters replaces and removes the file of the database.
    let file = Payloads::new(&db, 2, None);
    let (mut job, mut troubles) = (String::new(), Vec::new());
    for (line, definitions) in COMMANDS {
        let arguments = line.split(' ').map(|word| match word {
            "LETTER" => &*letter,
            "ARCHIVED" => &*archived,
            "GROUP" => &*group,
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
