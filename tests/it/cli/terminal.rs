//! The terminal: text from the database cannot control it, and tables and errors fit into it.

use std::ffi::OsStr;
use std::fs::File;
use std::io::Read as _;
use std::os::unix::ffi::OsStrExt as _;
use std::process::{Command, Stdio};

use postgres::Client;
use redrive_tests::{Sql, TestDatabase, ran, words};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

/// Writes to the clipboard, clears the screen, reverses the text, changes colours with a one-byte
/// control, hides.
const EVIL: &str =
    "\u{1b}]52;c;ZXZpbA\u{7}\u{1b}[2J\u{202e}\u{9b}31m\u{2066}evil\u{200b}\u{feff}\r\u{8}";

/// Commands that show stored text; `NAME` stands for the queue.
const READS: &str = r#"
stats
dlq
dlq show 1
dlq show 2
dlq groups show 1
dlq groups show 2
dlq runs show 1
schedule list
dlq retention list
dlq archive show 4
dlq archive restore NAME
dlq archive delete NAME
dlq groups merge 1 2
dlq groups split 2 --by error~e
dlq redrive NAME
dlq discard NAME --reason x
dlq edit NAME --merge '{"a": 1}'
dlq validate 1 --exec 'cat >&2; false'
dlq deliver 1 --exec 'cat >&2; false' --yes
job show 100
job list NAME
job cancel NAME
job priority 7 NAME
job edit NAME --merge '{"a": 1}'
queue list
breaker list
redact list
audit
prune --dry-run"#;

/// Commands that print nothing but a table, which fits into a narrow window.
const LISTS: &str = r"
job list
dlq list
dlq groups
dlq groups rules list
dlq archive list
dlq protection list
dlq runs list";

/// The width of that window.
const COLUMNS: usize = 60;

fn is_harmful(character: char) -> bool {
    let hides = matches!(character, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}');
    hides || (character.is_control() && !matches!(character, '\n' | '\t'))
}

/// Stores the letter 4 in the archive, a rule of the group 1, and a protection.
fn archive_rule_and_protection(client: &mut Client, name: &str) {
    let archived = "INSERT INTO redrive.archived_letters (id, queue, letter) \
        SELECT 4, l.queue, redrive.archive_json(l, $1::text, NULL) || '{\"id\": 4}' FROM redrive.dead_letters l WHERE l.id = 3";
    client.change(archived, &[&EVIL]);
    let rule = "INSERT INTO redrive.group_rules (group_id, action, pattern, person, reason) \
                VALUES (1, 'payload', $1::text, $1::text, $1::text)";
    client.change(rule, &[&EVIL]);
    let protection =
        "INSERT INTO redrive.protections (queue, roles) VALUES ($1::text, ARRAY[$2::text])";
    client.change(protection, &[&format!("{name}2"), &EVIL]);
}

#[test]
fn every_text_from_the_database_is_escaped_before_it_is_printed() {
    let (test, mut client) = TestDatabase::with_client();
    // Most operations check names. A role that can write the tables can store anything that the
    // constraints allow.
    let name: String = EVIL.chars().filter(|c| !c.is_control()).collect();
    let name = name + ".orders.of.the.northern.warehouse.for.every.customer.abroad";
    let json = serde_json::to_string(&serde_json::json!({ EVIL: EVIL })).unwrap();
    let history = serde_json::to_string(&serde_json::json!([{
        "attempt": 1, "outcome": "retry", "error_class": EVIL, "error_message": EVIL, "host": EVIL,
        "version": EVIL, "run_ms": 1, "ended_at": "2026-11-22T00:00:00Z"
    }]))
    .unwrap();
    let letter = "INSERT INTO redrive.dead_letters \
            (id, queue, kind, cause, error_class, error_message, error_detail, payload, raw, content_type, \
             headers, source, position, history, host, version, unique_key, enqueued_at, state, discard_reason) \
         VALUES ($1, $2::text, $2::text, 'rejected', $3::text, $3::text, $3::text, $4::text::jsonb, NULL, NULL, NULL, \
                 NULL, NULL, $5::text::jsonb, $3::text, $3::text, $3::text, now(), $6::text, \
                 CASE $6::text WHEN 'discarded' THEN $3::text END)";
    for (id, state) in [(1_i64, "open"), (3, "discarded")] {
        client.change(letter, &[&id, &name, &EVIL, &json, &history, &state]);
    }
    let captured = "INSERT INTO redrive.dead_letters \
            (id, queue, kind, cause, error_class, error_message, raw, content_type, headers, source, position, enqueued_at) \
         VALUES (2, $1::text, $1::text, 'captured', $2::text, $2::text, convert_to($2::text, 'UTF8'), $2::text, \
                 $3::text::jsonb, $2::text, $2::text, now())";
    client.change(captured, &[&name, &EVIL, &json]);
    let job = "INSERT INTO redrive.jobs (segment, id, queue, kind, payload, meta.history, meta.unique_key) \
               VALUES (0, 100, $1::text, $2::text, $3::text::jsonb, $4::text::jsonb, $2::text)";
    client.change(job, &[&name, &EVIL, &json, &history]);
    let worker = "INSERT INTO redrive.workers (worker_id, queue, host, pid, version, slots, kinds, expires_at) \
                  VALUES (gen_random_uuid(), $1::text, $2::text, 1, $2::text, 1, ARRAY[$2::text], now() + interval '1 h')";
    client.change(worker, &[&name, &EVIL]);
    for (statement, is_named) in [
        (
            "SELECT redrive.change_group(1, NULL, $1::text, $1::text, $1::text, $1::text)",
            false,
        ),
        (
            "SELECT redrive.open_breaker($2::text, NULL::interval, $1::text, $1::text), \
                    redrive.pause_queue($2::text, NULL, NULL, $1::text, $1::text)",
            true,
        ),
        (
            "SELECT redrive.record_act($1::text, $1::text, $1::text, jsonb_build_object($1::text, $1::text), 1, jsonb_build_object($1::text, $1::text))",
            false,
        ),
        (
            "SELECT redrive.add_redaction(NULL, NULL, ARRAY['/' || $1::text], '{}', $1::text, $1::text)",
            false,
        ),
        (
            "SELECT redrive.set_policy($2::text, '{}'::jsonb, interval '1 h', person => $1::text, reason => $1::text)",
            true,
        ),
    ] {
        let texts: &[&(dyn postgres::types::ToSql + Sync)] = match is_named {
            true => &[&EVIL, &name],
            false => &[&EVIL],
        };
        let done = client.query(statement, texts);
        done.unwrap_or_else(|error| panic!("{statement}: {error:?}"));
    }
    ran(
        &test,
        &[
            "dlq", "redrive", "id=1", "--reason", EVIL, "--yes", "--canary", "1", "--detach",
        ],
    );
    client.sql("UPDATE redrive.redrive_runs SET halted_because = reason, state = 'halted'");
    archive_rule_and_protection(&mut client, &name);
    let (mut shown, mut troubles) = (0, Vec::new());
    let reads = READS.trim().lines().map(|line| (line, false));
    let lists = LISTS.trim().lines().map(|line| (line, true));
    for (line, is_table) in reads.chain(lists) {
        let arguments = words(line).into_iter();
        let arguments = arguments.map(|word| if word == "NAME" { name.clone() } else { word });
        let ran = in_a_window(COLUMNS)
            .arg("--no-wait")
            .args(arguments)
            .env("DATABASE_URL", test.url())
            .output()
            .unwrap();
        let [out, err] = [ran.stdout, ran.stderr].map(|text| String::from_utf8(text).unwrap());
        assert_ne!(ran.status.code(), Some(2), "{line}: {err}");
        assert!(!is_table || out.lines().count() > 1, "{line}: {out}{err}");
        let is_wide = |text: &str| is_table && text.chars().count() > COLUMNS;
        for text in out.lines().chain(err.lines()) {
            if text.contains(is_harmful) || is_wide(text) {
                troubles.push(format!("`{line}` shows {text:?}"));
            }
        }
        shown += usize::from(out.contains("evil"));
    }
    assert!(troubles.is_empty(), "\n{}\n", troubles.join("\n"));
    assert!(shown >= 12, "only {shown} commands showed anything of it");
}

/// The program in a window of this width.
fn in_a_window(columns: usize) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_test_cli"));
    command
        .env_remove("DATABASE_URL")
        .envs([("NO_COLOR", "1"), ("LC_ALL", "C.UTF-8")])
        .env("COLUMNS", columns.to_string())
        .stdin(Stdio::null());
    command
}

/// A command that fails.
fn failing(stderr: impl Into<Stdio>) -> Command {
    let mut command = in_a_window(50);
    command.arg("stats").stdout(Stdio::null()).stderr(stderr);
    command
}

#[test]
fn a_long_error_is_wrapped_on_a_terminal_only() {
    let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
    grantpt(&terminal).unwrap();
    unlockpt(&terminal).unwrap();
    let name = ptsname(&terminal, Vec::new()).unwrap();
    let path = OsStr::from_bytes(name.to_bytes());
    let window = File::options().read(true).write(true).open(path).unwrap();
    let status = failing(window).status().unwrap();
    assert_eq!(status.code(), Some(2));
    let mut shown = Vec::new();
    // The read fails at the end, because the process has closed the window.
    drop(File::from(terminal).read_to_end(&mut shown));
    assert_eq!(
        String::from_utf8_lossy(&shown),
        "error: no database given: set DATABASE_URL or use\r\n       --database-url\r\n"
    );
    let piped = failing(Stdio::piped()).output().unwrap();
    assert_eq!(
        String::from_utf8_lossy(&piped.stderr),
        "error: no database given: set DATABASE_URL or use --database-url\n"
    );
}
