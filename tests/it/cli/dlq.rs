//! The verbs on dead letters, as they are typed.

use redrive::{LetterState, Letters};
use redrive_tests::{TestDatabase, letters_in};
use serde_json::Value;

use super::{Payloads, letters, ready, redrive};

#[test]
fn bulk_changes_nothing_without_a_yes() {
    let db = TestDatabase::migrated();
    let queue = db.queue("orders");
    letters(&db, &queue, 12);

    let dry = redrive(&db, &["dlq", "redrive", "orders", "--reason", "rejected"]).exits_with(0);
    assert!(
        dry.out
            .contains("12 open letters match; 12 would be redriven"),
        "{}",
        dry.out
    );
    assert!(
        dry.out
            .contains("redrive dlq redrive orders --reason rejected --yes"),
        "{}",
        dry.out
    );
    redrive(&db, &["dlq", "discard", "orders", "--why", "tests"]).exits_with(0);
    assert_eq!(
        letters_in(queue.database(), "orders", LetterState::Open),
        12
    );

    redrive(&db, &["dlq", "redrive", "orders", "--limit", "5", "--yes"]).exits_with(0);
    assert_eq!(ready(&queue), 5);
    redrive(
        &db,
        &["dlq", "discard", "orders", "--why", "tests", "--yes"],
    )
    .exits_with(0);
    assert_eq!(
        letters_in(queue.database(), "orders", LetterState::Discarded),
        7
    );
    redrive(&db, &["dlq", "redrive", "orders", "--yes"]).exits_with(1);
    let pruned = redrive(&db, &["prune", "--older-than", "0s", "--json"]).exits_with(0);
    assert_eq!(pruned.lines()[0]["pruned"], 7);
}

#[test]
fn letters_that_are_named_go_at_once_and_the_rest_is_told() {
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
fn nothing_of_a_letter_can_command_the_terminal() {
    let db = TestDatabase::migrated();
    let queue = db.queue("w");
    queue
        .add(redrive::NewJob::raw("k", "{\"a\": \"\u{9b}31m\u{202e}\"}").unwrap())
        .unwrap();
    let evil = "printf '\\033[2J\\342\\200\\256evil\\007\\n' >&2; exit 65";
    redrive(&db, &["work", "w", "--exec", evil, "--drain"]).exits_with(0);
    let id = queue.database().letters(&Letters::queue("w")).unwrap()[0]
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
fn runs_are_made_listed_shown_paused_and_cancelled() {
    let db = TestDatabase::migrated();
    let queue = db.queue("orders");
    letters(&db, &queue, 12);
    redrive(&db, &["dlq", "runs", "list"]).exits_with(1);
    redrive(&db, &["dlq", "runs", "show", "1"]).exits_with(1);

    // A dry run shows what would go, by group, and warns when nobody would take it.
    let dry = redrive(&db, &["dlq", "redrive", "orders", "--to", "nowhere"]).exits_with(0);
    assert!(
        dry.err.contains("no live worker of queue `nowhere`"),
        "{}",
        dry.err
    );
    assert!(dry.out.contains("GROUP") && dry.out.contains("--to nowhere --yes"));
    let dry = redrive(&db, &["dlq", "redrive", "orders", "--json"]).exits_with(0);
    let line = dry.lines().remove(0);
    assert_eq!(
        (&line["groups"][0]["letters"], &line["unserved"][0]["queue"]),
        (&12.into(), &"orders".into())
    );

    let detach = [
        "dlq", "redrive", "orders", "--detach", "--canary", "3", "--yes",
    ];
    redrive(&db, &detach).exits_with(0);
    let listed = redrive(&db, &["dlq", "runs", "list", "--json"]).exits_with(0);
    let run = listed.lines().remove(0);
    assert_eq!(
        (
            &run["state"],
            &run["letters"],
            &run["redriven"],
            &run["canary"]
        ),
        (&"running".into(), &12.into(), &0.into(), &3.into())
    );
    let id = run["run"].to_string();
    assert!(
        redrive(&db, &["dlq", "runs", "list"])
            .exits_with(0)
            .out
            .contains("running")
    );
    redrive(&db, &["dlq", "runs", "pause", &id]).exits_with(0);
    let again = redrive(&db, &["dlq", "runs", "pause", &id]).exits_with(1);
    assert!(again.err.contains("is paused"), "{}", again.err);
    let shown = redrive(&db, &["dlq", "runs", "show", &id]).exits_with(0);
    assert!(shown.out.contains("after a canary of 3"), "{}", shown.out);
    redrive(&db, &["dlq", "runs", "resume", &id, "--detach"]).exits_with(0);
    redrive(&db, &["dlq", "runs", "cancel", &id, "--why", "tests"]).exits_with(0);
    redrive(&db, &["dlq", "runs", "resume", &id]).exits_with(1);
    assert_eq!(ready(&queue), 0);

    let went = redrive(&db, &["dlq", "redrive", "orders", "--unthrottled", "--yes"]).exits_with(0);
    assert!(went.out.contains("12 redriven of 12"), "{}", went.out);
    assert_eq!(ready(&queue), 12);
    for wrong in [
        &["dlq", "redrive", "orders", "--force", "--yes"][..],
        &["dlq", "redrive", "orders", "--rate", "0", "--yes"],
        &["dlq", "redrive", "orders", "--rate", "5", "--unthrottled"],
        &["dlq", "redrive", "--id", "1", "--canary", "5"],
        &["dlq", "redrive", "orders", "--to", " ", "--yes"],
        &["dlq", "runs", "show", "x"],
    ] {
        redrive(&db, wrong).exits_with(2);
    }
}

#[test]
fn the_verbs_on_letters_take_conditions() {
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
            "died<1h",
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
            "there are queue=",
        ),
        (
            &["dlq", "list", "orders", "kind=a", "--kind", "b"],
            "a second time",
        ),
        (
            &["dlq", "list", "orders", "state=any", "--state", "open"],
            "a second time",
        ),
        (&["dlq", "redrive", "orders", "died>soon"], "neither an age"),
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
            "--why",
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
fn groups_are_listed_shown_and_told_of() {
    let db = TestDatabase::migrated();
    let orders = db.queue("orders");
    redrive(&db, &["dlq", "groups"]).exits_with(1);
    letters(&db, &orders, 3);
    let groups = redrive(&db, &["dlq", "groups", "--json"])
        .exits_with(0)
        .lines();
    assert_eq!((groups.len(), &groups[0]["open"]), (1, &Value::from(3)));
    let id = groups[0]["id"].to_string();
    let listed = redrive(&db, &["dlq", "groups", "list", "orders"]).exits_with(0);
    assert!(
        listed.out.contains("open") && listed.out.contains("exit 65"),
        "{}",
        listed.out
    );
    redrive(&db, &["dlq", "groups", "note", &id, "see the runbook"]).exits_with(0);
    redrive(&db, &["dlq", "groups", "own", &id, "payments"]).exits_with(0);
    let told = redrive(&db, &["dlq", "groups", "ack", &id]).exits_with(0);
    assert!(
        told.out.contains("is acknowledged, of payments"),
        "{}",
        told.out
    );
    let shown = redrive(&db, &["dlq", "groups", "show", &id]).exits_with(0);
    for what in [
        "3 open",
        "see the runbook",
        "payments",
        "deaths ever",
        "redrive dlq list group=",
    ] {
        assert!(shown.out.contains(what), "{what}: {}", shown.out);
    }
    redrive(&db, &["dlq", "groups", "ignore", &id]).exits_with(0);
    redrive(&db, &["dlq", "groups", "reopen", &id]).exits_with(0);
    redrive(
        &db,
        &["dlq", "groups", "resolve", &id, "--why", "fixed in 1.4.3"],
    )
    .exits_with(0);
    redrive(&db, &["dlq", "groups", "list", "--state", "open"]).exits_with(1);
    letters(&db, &orders, 1);
    let listed = redrive(&db, &["dlq", "groups"]).exits_with(0);
    assert!(listed.out.contains("REGRESSION"), "{}", listed.out);
    redrive(&db, &["dlq", "groups", "show", "999"]).exits_with(1);
    redrive(&db, &["dlq", "groups", "ack", "999"]).exits_with(1);
    redrive(&db, &["dlq", "groups", "ack", "x"]).exits_with(2);

    let audit = redrive(&db, &["audit", "--verb", "resolve_group", "--json"])
        .exits_with(0)
        .lines();
    assert_eq!(
        (audit.len(), &audit[0]["why"]),
        (1, &Value::from("fixed in 1.4.3"))
    );
    assert!(audit[0]["person"].as_str().expect("a person").contains('@'));
    let audit = redrive(&db, &["audit", "--since", "1h", "--limit", "2"]).exits_with(0);
    assert!(audit.err.contains("--before"), "{}", audit.err);
    redrive(&db, &["audit", "--verb", "nothing"]).exits_with(1);
}

#[test]
fn the_screen_of_whoever_is_on_call_says_what_to_type_next() {
    let db = TestDatabase::migrated();
    let orders = db.queue("orders");
    let empty = redrive(&db, &["dlq"]).exits_with(0);
    assert!(
        empty.out.contains("no queue holds anything yet"),
        "{}",
        empty.out
    );
    letters(&db, &orders, 3);
    let evil = "INSERT INTO redrive.dead_letters (queue, kind, reason, error_class, error_message, payload, enqueued_at)
        VALUES ('orders', 'order.placed', 'rejected', 'E', 'a long message with \u{1b}[2J in it ' || repeat('x', 300), '{}', now())";
    db.client().batch_execute(evil).expect("a letter");
    let group = redrive(&db, &["dlq", "groups", "--json"])
        .exits_with(0)
        .lines()[0]["id"]
        .to_string();
    let screen = redrive(&db, &["dlq"]).exits_with(0);
    for what in [
        "QUEUE",
        "What fails most",
        &format!("redrive dlq list group={group}"),
        "3 waiting",
        "The oldest letter",
    ] {
        assert!(screen.out.contains(what), "{what}: {}", screen.out);
    }
    assert!(!screen.out.contains('\u{1b}'), "{}", screen.out);
    for line in screen.out.lines() {
        assert!(line.chars().count() <= 80, "{line}");
    }
    redrive(&db, &["dlq", "groups", "resolve", &group]).exits_with(0);
    let resolved = redrive(&db, &["dlq"]).exits_with(0);
    assert!(resolved.out.contains("resolved"), "{}", resolved.out);
    letters(&db, &orders, 1);
    let again = redrive(&db, &["dlq"]).exits_with(0);
    assert!(again.out.contains("REGRESSION"), "{}", again.out);
    let json = redrive(&db, &["dlq", "--json"]).exits_with(0).lines();
    assert_eq!(json[0]["queues"][0]["open"], 5);
    assert_eq!(json[0]["groups"][0]["regression"], true);
    assert!(json[0]["runs"].is_array() && json[0]["breakers"].is_array());
}

#[test]
fn a_letter_is_shown_as_one_timeline_over_its_generations() {
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
    redrive(&db, &["dlq", "discard", "--id", &id, "--why", "refunded"]).exits_with(0);
    let shown = redrive(&db, &["dlq", "show", &id]).exits_with(0);
    let told = [
        "enqueued",
        "attempt 1: rejected",
        "died: rejected",
        "attempt 1 of generation 1",
        "died in generation 1: rejected",
        "discarded",
    ];
    let mut rest = &*shown.out;
    for what in told {
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
