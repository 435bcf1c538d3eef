//! Commands on redrive runs.

use redrive_tests::prelude::*;

use super::super::{ready, with_letters};

#[test]
fn runs_can_be_started_listed_shown_paused_and_cancelled() {
    let (db, queue, _) = with_letters(12);
    db.fails(1, "dlq runs list");
    db.fails(1, "dlq runs show 1");

    db.run("dlq redrive orders --to nowhere")
        .tells("no live worker of queue `nowhere`");
    db.run("dlq redrive orders cause=rejected --detach --canary 3 --yes --reason 'gateway fixed'");
    let run = db.run("dlq runs list --json").json();
    let expected = json!({"state": "running", "letters": 12, "sent": 0, "canary": 3});
    holds(&run, &expected);
    let id = &run["id"];
    db.run("dlq runs list")
        .shows("running")
        .shows("queue=orders cause=rejected: gateway fixed\n");
    db.run(format!("dlq runs pause {id}"));
    db.fails(1, format!("dlq runs pause {id}"))
        .tells("is paused");
    db.run(format!("dlq runs show {id}"))
        .shows("after a canary of 3")
        .shows("filter           queue=orders cause=rejected");
    db.run(format!("dlq runs resume {id} --detach"));
    db.run(format!("dlq runs cancel {id} --reason tests"));
    db.fails(1, format!("dlq runs resume {id}"));
    assert_eq!(ready(&queue), 0);
}

#[test]
fn a_run_whose_step_fails_is_named() {
    let (db, ..) = with_letters(1);
    let broken = "IF NEW.state = 'redriving' THEN RAISE EXCEPTION 'broken'; END IF";
    db.before("UPDATE ON redrive.dead_letters", broken);
    db.fails(2, "dlq redrive orders --yes")
        .tells("redrive dlq runs watch 1")
        .tells("broken");
}

#[test]
fn the_audit_shows_a_run_on_one_line() {
    let db = TestDatabase::migrated();
    let records = r#"
        INSERT INTO redrive.audit (verb, person, reason, filter, letters, about) VALUES
            ('redrive', 'maria', 'INC-42', '{"group": [5]}', 100, '{"run": 4}'),
            ('discard', 'maria', 'old', '{"queue": "orders", "state": ["open"]}', 7, '{"sink": "kafka", "until": null}'),
            ('redrive', 'maria', 'INC-42', '{"group": [5]}', 1000, '{"run": 4}'),
            ('redrive', 'maria', 'INC-43', '{"group": [6, 7]}', 1, '{"run": 5}'),
            ('halt_run', 'maria', 'too many deaths', '{"group": [5]}', 0, '{"run": 4}')"#;
    db.client().sql(records);
    let shown = db.run("audit").out;
    let words = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().skip(2).collect();
        words.join(" ")
    };
    let lines: Vec<String> = shown.lines().skip(1).map(words).collect();
    let expected = [
        "halt_run 0 maria run=4 group=5 too many deaths",
        "redrive 1 maria run=5 group=6,7 INC-43",
        "redrive 1,100 maria run=4 group=5 INC-42",
        "discard 7 maria sink=kafka queue=orders state=open old",
    ];
    assert_eq!(lines, expected, "{shown}");
    assert_eq!(db.run("audit --json").lines().len(), 5);
    // A line counts the records of other pages, too.
    let bulk = "
        INSERT INTO redrive.audit (verb, person, letters) VALUES ('discard', 'maria', 500);
        INSERT INTO redrive.audit (verb, person, letters, batch_of)
        SELECT 'discard', 'maria', more, (SELECT max(id) FROM redrive.audit)
        FROM unnest('{500,7}'::int[]) more";
    db.client().sql(bulk);
    for page in ["--limit 1", "--limit 3"] {
        let page = db.run(format!("audit {page}")).out;
        let line = page.lines().nth(1).map(words);
        assert_eq!(line.as_deref(), Some("discard 1,007 maria"), "{page}");
    }
}

#[test]
fn the_screen_shows_halted_runs_before_those_in_progress() {
    let (db, ..) = with_letters(2);
    let detached = "dlq redrive orders --detach --yes";
    db.run(detached);
    db.run(detached);
    let update = "UPDATE redrive.redrive_runs SET state = 'halted', halted_because = 'a test' WHERE id = 1;
         INSERT INTO redrive.redrive_runs OVERRIDING SYSTEM VALUE
         SELECT (jsonb_populate_record(r, jsonb_build_object('id', r.id + n, 'state', 'cancelled', 'ended_at', now()))).*
         FROM redrive.redrive_runs r, generate_series(1, 100) n WHERE r.id = 2";
    db.client().sql(update);
    db.run("dlq runs list --limit 1")
        .tells("for more runs, add --limit 10");
    db.run("dlq runs list --limit 102").warns_not();
    let screen = db.run("dlq").out;
    let (_, runs) = screen.split_once("Redrive runs\n  run 1 halted").unwrap();
    has(runs, "\n  run 2 running");
}
