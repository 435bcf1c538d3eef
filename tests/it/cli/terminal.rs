//! The terminal: text from the database cannot control it, and tables fit into it.

use redrive_tests::prelude::*;

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
schedule show NAME
dlq retention list
dlq show 4
dlq archive restore NAME
dlq archive delete NAME
dlq groups merge 1 2
dlq groups split 2 --error e
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
breaker list
redact list
audit"#;

/// Commands that print nothing but a table, each with a window into which that fits. The numbers of jobs and of runs
/// need a wider one.
const LISTS: &str = r"
60 dlq list
60 dlq groups
60 dlq groups rules list
60 dlq archive list
60 dlq protection list
80 dlq runs list
80 job list";

fn is_harmful(character: char) -> bool {
    let hides = matches!(character, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}');
    hides || (character.is_control() && !matches!(character, '\n' | '\t'))
}

/// Stores a text in every place that a command shows. Most operations check names, but a role that can write the
/// tables can store anything that the constraints allow.
const STORED: &str = r"
INSERT INTO redrive.dead_letters (id, queue, kind, cause, error_class, error_message, error_detail, payload, history,
                                  host, version, unique_key, enqueued_at, state, discard_reason)
VALUES (1, 'NAME', 'NAME', 'rejected', 'EVIL', 'EVIL', 'EVIL', 'JSON', 'HISTORY', 'EVIL', 'EVIL', 'EVIL', now(), 'open', NULL),
       (3, 'NAME', 'NAME', 'rejected', 'EVIL', 'EVIL', 'EVIL', 'JSON', 'HISTORY', 'EVIL', 'EVIL', 'EVIL', now(), 'discarded', 'EVIL');
INSERT INTO redrive.dead_letters (id, queue, kind, cause, error_class, error_message, raw, content_type, headers, source,
                                  position, enqueued_at)
VALUES (2, 'NAME', 'NAME', 'captured', 'EVIL', 'EVIL', convert_to('EVIL', 'UTF8'), 'EVIL', 'JSON', 'EVIL', 'EVIL', now());
INSERT INTO redrive.archived_letters SELECT l.* FROM redrive.dead_letters l WHERE l.id = 3;
UPDATE redrive.archived_letters SET id = 4, archived_at = now();
INSERT INTO redrive.jobs (segment, id, queue, kind, payload, meta.history, meta.unique_key)
VALUES (0, 100, 'NAME', 'EVIL', 'JSON', 'HISTORY', 'EVIL');
INSERT INTO redrive.workers (worker_id, queue, host, pid, version, slots, kinds, expires_at)
VALUES (gen_random_uuid(), 'NAME', 'EVIL', 1, 'EVIL', 1, ARRAY['EVIL'], now() + interval '1 h');
INSERT INTO redrive.group_rules (group_id, pattern, person, reason) VALUES (1, 'EVIL', 'EVIL', 'EVIL');
SELECT redrive.change_group(1, NULL, 'EVIL', 'EVIL', 'EVIL', 'EVIL');
SELECT redrive.open_breaker('NAME', NULL::interval, 'EVIL', 'EVIL'), redrive.pause_queue('NAME', NULL, NULL, 'EVIL', 'EVIL');
SELECT redrive.record_act('EVIL', 'EVIL', 'EVIL', 'JSON', 1, 'JSON');
SELECT redrive.add_redaction(NULL, NULL, ARRAY['/EVIL'], '{}', 'EVIL', 'EVIL');
SELECT redrive.set_policy('NAME', '{}'::jsonb, interval '1 h', person => 'EVIL', reason => 'EVIL');
-- It keeps others from setting a policy of all queues.
INSERT INTO redrive.protections (queue, roles) VALUES ('NAME2', ARRAY['EVIL'])";

#[test]
fn every_text_from_the_database_is_escaped_before_it_is_printed() {
    let (test, mut client) = TestDatabase::with_client();
    let name: String = EVIL.chars().filter(|c| !c.is_control()).collect();
    let name = name + ".orders.of.the.northern.warehouse.for.every.customer.abroad";
    let json = json!({ EVIL: EVIL }).to_string();
    let history = json!([{
        "attempt": 1, "outcome": "retry", "error_class": EVIL, "error_message": EVIL, "host": EVIL,
        "version": EVIL, "run_ms": 1, "ended_at": "2026-11-22T00:00:00Z"
    }]);
    let stored = STORED.replace("NAME", &name).replace("JSON", &json);
    let stored = stored.replace("HISTORY", &history.to_string());
    client.sql(&stored.replace("EVIL", EVIL));
    let run = "dlq redrive id=1 --yes --canary 1 --detach --reason";
    let run: Vec<&str> = run.split(' ').chain([EVIL]).collect();
    ran(&test, &run);
    client.sql("UPDATE redrive.redrive_runs SET halted_because = reason, state = 'halted'");
    let (mut shown, mut troubles) = (0, Vec::new());
    let reads = READS.trim().lines().map(|line| (line, None));
    let lists = LISTS.trim().lines().map(|line| {
        let (columns, command) = line.split_once(' ').unwrap();
        (command, Some(columns.parse::<usize>().unwrap()))
    });
    for (line, table) in reads.chain(lists) {
        let arguments = words(line).into_iter();
        let arguments = arguments.map(|word| if word == "NAME" { name.clone() } else { word });
        let mut command = in_a_window(table.unwrap_or(80));
        let command = command.arg("--no-wait").args(arguments);
        let ran = command.env("DATABASE_URL", test.url()).output().unwrap();
        let [out, err] = [ran.stdout, ran.stderr].map(|text| String::from_utf8(text).unwrap());
        assert_ne!(ran.status.code(), Some(2), "{line}: {err}");
        let is_empty = out.lines().count() <= 1;
        assert!(table.is_none() || !is_empty, "{line}: {out}{err}");
        let is_wide = |text: &str| table.is_some_and(|columns| text.chars().count() > columns);
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
    command.env_remove("DATABASE_URL").stdin(Stdio::null());
    command.env("COLUMNS", columns.to_string());
    command.envs([("NO_COLOR", "1"), ("LC_ALL", "C.UTF-8")]);
    command
}
