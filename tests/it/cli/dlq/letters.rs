//! Commands on letters: list, show, redrive, capture.

use redrive::dlq::{LetterFilter, LetterState};
use redrive_tests::{TestDatabase, letters_in};
use serde_json::Value;

use super::super::{Payloads, letters, ready, redrive};

#[test]
fn bulk_commands_change_nothing_without_yes() {
    let db = TestDatabase::migrated();
    let queue = db.queue("orders");
    letters(&db, &queue, 12);

    let dry = redrive(&db, &["dlq", "redrive", "orders", "--cause", "rejected"]).exits_with(0);
    assert!(
        dry.out
            .contains("12 open letters match; 12 would be redriven"),
        "{}",
        dry.out
    );
    assert!(
        dry.out
            .contains("redrive dlq redrive orders --cause rejected --yes"),
        "{}",
        dry.out
    );
    redrive(&db, &["dlq", "discard", "orders", "--reason", "tests"]).exits_with(0);
    // Only a dry run needs no reason.
    let preview = redrive(&db, &["dlq", "discard", "orders"]).exits_with(0);
    assert!(
        [preview.out, preview.err]
            .concat()
            .contains("--reason TEXT"),
        "it says what the act needs"
    );
    for verb in [
        &["discard", "orders"][..],
        &["redrive", "orders", "--force"],
    ] {
        redrive(&db, &[&["dlq"], verb].concat()).exits_with(0);
        let refused = redrive(&db, &[&["dlq"], verb, &["--yes"]].concat()).exits_with(2);
        assert!(
            refused.err.contains("needs --reason TEXT"),
            "{}",
            refused.err
        );
    }
    assert_eq!(
        letters_in(queue.database(), "orders", LetterState::Open),
        12
    );

    redrive(&db, &["dlq", "redrive", "orders", "--limit", "5", "--yes"]).exits_with(0);
    assert_eq!(ready(&queue), 5);
    redrive(
        &db,
        &["dlq", "discard", "orders", "--reason", "tests", "--yes"],
    )
    .exits_with(0);
    assert_eq!(
        letters_in(queue.database(), "orders", LetterState::Discarded),
        7
    );
    redrive(&db, &["dlq", "redrive", "orders", "--yes"]).exits_with(1);
    let pruned = redrive(&db, &["prune", "--older-than", "0s", "--yes", "--json"]).exits_with(0);
    assert_eq!(pruned.lines()[0]["letters"], 7);
}

#[test]
fn letters_given_by_id_are_redriven_at_once_and_the_others_reported() {
    let db = TestDatabase::migrated();
    let queue = db.queue("orders");
    let ids = letters(&db, &queue, 2);
    let (first, second) = (ids[0].to_string(), ids[1].to_string());
    let some = redrive(&db, &["dlq", "redrive", "--id", &first, "999999"]).exits_with(1);
    assert!(
        some.out.contains("1 letter redriven") && some.err.contains("999999"),
        "{}{}",
        some.out,
        some.err
    );
    redrive(&db, &["dlq", "redrive", "--id", &second, "--dry-run"]).exits_with(0);
    assert_eq!(ready(&queue), 1);
    redrive(&db, &["work", "orders", "--exec", "true", "--drain"]).exits_with(0);
    assert_eq!(
        letters_in(queue.database(), "orders", LetterState::Recovered),
        1
    );
}

#[test]
fn control_characters_in_a_letter_never_reach_the_terminal() {
    let db = TestDatabase::migrated();
    let queue = db.queue("w");
    queue
        .enqueue_job(redrive::NewJob::raw("k", "{\"a\": \"\u{9b}31m\u{202e}\"}").unwrap())
        .unwrap();
    let evil = "printf '\\033[2J\\342\\200\\256evil\\007\\n' >&2; exit 65";
    redrive(&db, &["work", "w", "--exec", evil, "--drain"]).exits_with(0);
    let id = queue
        .database()
        .dlq()
        .list(&LetterFilter::new().queue("w"))
        .unwrap()[0]
        .id
        .to_string();
    for command in [&["dlq", "list"][..], &["dlq", "show", &id], &["stats"]] {
        let shown = redrive(&db, command).exits_with(0).out;
        let harmless = |c: char| c == '\n' || !(c.is_control() || c == '\u{202e}');
        assert!(shown.chars().all(harmless), "{shown:?}");
        assert!(shown.contains("evil"), "{shown}");
    }
    let line = redrive(&db, &["dlq", "show", &id, "--json"])
        .exits_with(0)
        .lines()
        .remove(0);
    assert_eq!(line["error_message"], "\u{1b}[2J\u{202e}evil\u{7}");
    assert_eq!(line["payload"]["a"], "\u{9b}31m\u{202e}");
}

#[test]
fn a_capture_is_recorded_once_and_redriven_only_when_it_is_json() {
    let db = TestDatabase::migrated();
    let file = Payloads::new(&db, 1, Some((1, "{\"broken\": \u{1}")));
    let capture = [
        "dlq",
        "capture",
        "kafka:orders",
        "3/1",
        "q",
        "order.placed",
        file.path(),
        "--json",
    ];
    let first = redrive(&db, &capture).exits_with(0).lines().remove(0);
    let second = redrive(&db, &capture).exits_with(0).lines().remove(0);
    assert_eq!(
        (&first["new"], &second["new"]),
        (&true.into(), &false.into())
    );
    assert_eq!(first["id"], second["id"]);
    let id = first["id"].to_string();
    assert!(
        redrive(&db, &["dlq", "show", &id])
            .exits_with(0)
            .out
            .contains("{\"broken\": \\x01")
    );
    let refused = redrive(&db, &["dlq", "redrive", "--id", &id]).exits_with(1);
    assert!(refused.err.contains("not JSON"), "{}", refused.err);
}

#[test]
fn the_commands_on_letters_accept_conditions() {
    let db = TestDatabase::migrated();
    let orders = db.queue("orders");
    let ids = letters(&db, &orders, 4);
    let listed = redrive(
        &db,
        &[
            "dlq",
            "list",
            "orders",
            "payload.order>2",
            "age<1h",
            "--json",
        ],
    );
    assert_eq!(listed.exits_with(0).lines().len(), 2);
    let first = format!("id={}", ids[0]);
    let listed = redrive(&db, &["dlq", "list", &first, "--json"])
        .exits_with(0)
        .lines();
    assert_eq!(listed[0]["id"], ids[0].get());
    redrive(&db, &["dlq", "list", "orders", "state=any"]).exits_with(0);
    let none = redrive(&db, &["dlq", "list", "orders", "message~\"no such\""]).exits_with(1);
    assert!(
        none.err
            .contains("no letter matches queue=orders state=open message~\"no such\""),
        "{}",
        none.err
    );

    for (words, why) in [
        (
            &["dlq", "list", "orders", "colour=red"][..],
            "unknown field",
        ),
        (
            &["dlq", "list", "orders", "kind=a", "--kind", "b"],
            "repeats",
        ),
        (
            &["dlq", "list", "orders", "state=any", "--state", "open"],
            "repeats",
        ),
        (&["dlq", "redrive", "orders", "died>soon"], "not a time"),
    ] {
        let ran = redrive(&db, words).exits_with(2);
        assert!(ran.err.contains(why), "{words:?}: {}", ran.err);
    }

    let dry = redrive(&db, &["dlq", "redrive", "orders", "payload.order<=2"]).exits_with(0);
    assert!(dry.out.contains("2 open letters match"), "{}", dry.out);
    assert!(dry.out.contains("'payload.order<=2' --yes"), "{}", dry.out);
    assert_eq!(ready(&orders), 0);
    let word = format!("id>={}", ids[2]);
    redrive(
        &db,
        &[
            "dlq",
            "discard",
            &word,
            "payload.order=3",
            "--reason",
            "test",
            "--yes",
        ],
    )
    .exits_with(0);
    assert_eq!(
        letters_in(orders.database(), "orders", LetterState::Discarded),
        1
    );
    redrive(
        &db,
        &["dlq", "redrive", "orders", "payload.order<=2", "--yes"],
    )
    .exits_with(0);
    assert_eq!(ready(&orders), 2);
}

#[test]
fn a_letter_is_shown_as_one_timeline_across_its_generations() {
    let db = TestDatabase::migrated();
    let orders = db.queue("orders");
    let id = letters(&db, &orders, 1)[0].to_string();
    redrive(&db, &["dlq", "redrive", "--id", &id]).exits_with(0);
    redrive(
        &db,
        &[
            "work",
            "orders",
            "--exec",
            "echo worse >&2; exit 65",
            "--drain",
        ],
    )
    .exits_with(0);
    redrive(
        &db,
        &["dlq", "discard", "--id", &id, "--reason", "refunded"],
    )
    .exits_with(0);
    let shown = redrive(&db, &["dlq", "show", &id]).exits_with(0);
    let expected = [
        "enqueued",
        "attempt 1: rejected",
        "died: rejected",
        "attempt 1 of generation 1",
        "died in generation 1: rejected",
        "discarded",
    ];
    let mut rest = &*shown.out;
    for what in expected {
        let at = rest
            .find(what)
            .unwrap_or_else(|| panic!("`{what}` in its place: {}", shown.out));
        rest = &rest[at + what.len()..];
    }
    assert!(
        shown.out.contains("group ") && shown.out.contains("process "),
        "{}",
        shown.out
    );
    let json = redrive(&db, &["dlq", "show", &id, "--json"])
        .exits_with(0)
        .lines();
    assert_eq!(
        (&json[0]["deaths"], json[0]["history"][1]["pid"].is_number()),
        (&Value::from(2), true)
    );
    assert_eq!(json[0]["events"][0]["event"], "died");
}

#[test]
fn the_json_of_a_letter_has_every_stored_field() {
    let db = TestDatabase::migrated();
    let orders = db.queue("orders");
    let id = letters(&db, &orders, 1)[0];
    let mut client = db.client();
    client
        .execute(
            "UPDATE redrive.dead_letters SET headers = '{\"trace\": \"4bf9\"}', group_key = 'customer-17', \
                 unique_key = 'order-1', crashes = 2 WHERE id = $1",
            &[&id.get()],
        )
        .unwrap();
    let lines = redrive(&db, &["dlq", "show", &id.to_string(), "--json"])
        .exits_with(0)
        .lines();
    let line = &lines[0];
    assert_eq!(line["headers"], serde_json::json!({"trace": "4bf9"}));
    assert_eq!(line["group_key"], "customer-17");
    assert_eq!(line["unique_key"], "order-1");
    assert_eq!(line["crashes"], 2);
    let asked = "SELECT attname::text FROM pg_attribute \
         WHERE attrelid = 'redrive.dead_letters'::regclass AND attnum > 0 AND NOT attisdropped";
    for row in client.query(asked, &[]).unwrap() {
        let column: String = row.get(0);
        let field = match &*column {
            "raw" => "raw_hex",
            "group_id" => "group",
            "run_id" | "run_ordinal" => "run",
            "policy_id" => "policy",
            "audit_id" => "audit",
            "worker_id" => "worker",
            "detail_id" => "detail_is_shared",
            // The run time of the last attempt.
            "run_ms" => "history",
            // For the consumers of `dlq_events`.
            "retry_after" | "claimed_until" => continue,
            other => other,
        };
        assert!(line.get(field).is_some(), "{column}: {line}");
    }
}
