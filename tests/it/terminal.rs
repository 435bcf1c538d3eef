//! The terminal: whatever is in the database, the command line shows it and nothing more happens.

use redrive_tests::{TestDatabase, ran};

/// Writes into the clipboard, clears the screen, turns the direction of writing, changes colours
/// by a control character of one byte, hides.
const EVIL: &str =
    "\u{1b}]52;c;ZXZpbA==\u{7}\u{1b}[2J\u{202e}\u{9b}31m\u{2066}evil\u{200b}\u{feff}\r\u{8}";

/// Reads that show what is stored.
const READS: &[&[&str]] = &[
    &["stats"],
    &["dlq"],
    &["dlq", "list"],
    &["dlq", "show", "1"],
    &["dlq", "show", "2"],
    &["dlq", "groups"],
    &["dlq", "groups", "show", "1"],
    &["dlq", "groups", "show", "2"],
    &["dlq", "runs", "list"],
    &["dlq", "runs", "show", "1"],
    &["dlq", "policies", "list"],
    &["dlq", "policies", "due"],
    &["dlq", "retention", "list"],
    &["dlq", "archive", "list"],
    &["dlq", "redrive", "--all"],
    &["dlq", "discard", "--all", "--why", "x"],
    &["dlq", "edit", "--all", "--merge", "{\"a\": 1}"],
    &["dlq", "validate", "--all", "--exec", "cat >&2; false"],
    &[
        "dlq",
        "deliver",
        "--all",
        "--exec",
        "cat >&2; false",
        "--yes",
    ],
    &["job", "show", "100"],
    &["breaker", "list"],
    &["redact", "list"],
    &["audit"],
    &["prune", "--dry-run"],
];

fn is_harmful(character: char) -> bool {
    let hides = matches!(character, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}');
    hides || (character.is_control() && !matches!(character, '\n' | '\t'))
}

#[test]
fn no_text_of_the_database_reaches_the_terminal_as_it_is() {
    let test = TestDatabase::migrated();
    let mut client = test.client();
    // Names are checked by most doors; whoever may write the tables can put anything there that
    // the constraints allow.
    let name: String = EVIL.chars().filter(|c| !c.is_control()).collect();
    let json = serde_json::to_string(&serde_json::json!({ EVIL: EVIL })).unwrap();
    let history = serde_json::to_string(&serde_json::json!([{
        "attempt": 1, "outcome": "retry", "error_class": EVIL, "error_message": EVIL, "host": EVIL,
        "version": EVIL, "run_ms": 1, "ended_at": "2026-11-22T00:00:00Z"
    }]))
    .unwrap();
    let letter = "INSERT INTO redrive.dead_letters \
            (id, queue, kind, reason, error_class, error_message, error_detail, payload, raw, content_type, \
             headers, source, position, history, host, version, unique_key, enqueued_at, state, discard_reason) \
         VALUES ($1, $2, $2, 'rejected', $3, $3, $3, $4::text::jsonb, NULL, NULL, NULL, NULL, NULL, \
                 $5::text::jsonb, $3, $3, $3, now(), $6, CASE $6::text WHEN 'discarded' THEN $3 END)";
    for (id, state) in [(1_i64, "open"), (3, "discarded")] {
        client
            .execute(letter, &[&id, &name, &EVIL, &json, &history, &state])
            .unwrap();
    }
    let captured = "INSERT INTO redrive.dead_letters \
            (id, queue, kind, reason, error_class, error_message, raw, content_type, headers, source, position, enqueued_at) \
         VALUES (2, $1, $1, 'captured', $2, $2, convert_to($2, 'UTF8'), $2, $3::text::jsonb, $2, $2, now())";
    client.execute(captured, &[&name, &EVIL, &json]).unwrap();
    let job = "INSERT INTO redrive.jobs (segment, id, queue, kind, payload, history, unique_key) \
               VALUES (0, 100, $1, $2, $3::text::jsonb, $4::text::jsonb, $2)";
    client
        .execute(job, &[&name, &EVIL, &json, &history])
        .unwrap();
    let worker = "INSERT INTO redrive.workers (worker_id, queue, host, pid, version, slots, kinds, expires_at) \
                  VALUES (gen_random_uuid(), $1, $2, 1, $2, 1, ARRAY[$2::text], now() + interval '1 h')";
    client.execute(worker, &[&name, &EVIL]).unwrap();
    for (statement, parameters) in [
        ("SELECT redrive.note_group(1, $1, $1, $1)", 1),
        ("SELECT redrive.own_group(1, $1, $1, $1)", 1),
        ("SELECT redrive.open_breaker($2, NULL::interval, $1, $1)", 2),
        (
            "SELECT redrive.record_act($1, $1, $1, jsonb_build_object($1, $1), 1, jsonb_build_object($1, $1))",
            1,
        ),
        (
            "SELECT redrive.add_redaction(NULL, NULL, ARRAY['/' || $1], NULL, $1, $1)",
            1,
        ),
        (
            "SELECT redrive.set_policy($2, '{}', interval '1 h', person => $1, why => $1)",
            2,
        ),
    ] {
        let texts: &[&(dyn postgres::types::ToSql + Sync)] = match parameters {
            1 => &[&EVIL],
            _ => &[&EVIL, &name],
        };
        let done = client.query(statement, texts);
        done.unwrap_or_else(|error| panic!("{statement}: {error:?}"));
    }
    ran(
        &test,
        &[
            "dlq", "redrive", "--id", "1", "--why", EVIL, "--yes", "--canary", "1", "--detach",
        ],
    );
    client
        .batch_execute("UPDATE redrive.redrive_runs SET halted_because = why, state = 'halted'")
        .unwrap();
    let mut shown = 0;
    for arguments in READS {
        let ran = ran(&test, arguments);
        assert_ne!(
            ran.code,
            std::process::ExitCode::from(2),
            "{arguments:?}: {}",
            ran.err
        );
        for text in [&ran.out, &ran.err] {
            assert!(
                !text.contains(is_harmful),
                "{arguments:?} shows {:?}",
                text.lines().find(|line| line.contains(is_harmful))
            );
        }
        shown += usize::from(ran.out.contains("evil"));
    }
    assert!(shown >= 12, "only {shown} commands showed anything of it");
}
