//! Commands on groups, and the screen for the person on call.

use redrive::Job;
use redrive_tests::{Hold, Order, TestDatabase, stop, worker};
use serde_json::Value;

use super::super::{letters, redrive};

#[test]
fn groups_can_be_listed_shown_and_annotated() {
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
        listed.out.contains("open") && listed.out.contains("exit:65"),
        "{}",
        listed.out
    );
    redrive(&db, &["dlq", "groups", "note", &id, "see the runbook"]).exits_with(0);
    redrive(&db, &["dlq", "groups", "own", &id, "payments"]).exits_with(0);
    let output = redrive(&db, &["dlq", "groups", "ack", &id]).exits_with(0);
    assert!(
        output.out.contains("is acknowledged, owned by payments"),
        "{}",
        output.out
    );
    let shown = redrive(&db, &["dlq", "groups", "show", &id]).exits_with(0);
    for what in [
        "3 open",
        "see the runbook",
        "payments",
        "deaths",
        "redrive dlq list group=",
    ] {
        assert!(shown.out.contains(what), "{what}: {}", shown.out);
    }
    redrive(&db, &["dlq", "groups", "ignore", &id]).exits_with(0);
    redrive(&db, &["dlq", "groups", "reopen", &id]).exits_with(0);
    redrive(
        &db,
        &[
            "dlq",
            "groups",
            "resolve",
            &id,
            "--reason",
            "fixed in 1.4.3",
        ],
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
        (audit.len(), &audit[0]["reason"]),
        (1, &Value::from("fixed in 1.4.3"))
    );
    assert!(audit[0]["person"].as_str().expect("a person").contains('@'));
    let audit = redrive(&db, &["audit", "--since", "1h", "--limit", "2"]).exits_with(0);
    assert!(audit.err.contains("--before"), "{}", audit.err);
    redrive(&db, &["audit", "--verb", "nothing"]).exits_with(1);
}

#[test]
fn the_on_call_screen_shows_the_newest_message_and_how_many_are_alike() {
    let db = TestDatabase::migrated();
    let mut client = db.client();
    client
        .batch_execute(
            "INSERT INTO redrive.dead_letters
                 (queue, kind, cause, error_class, error_message, payload, enqueued_at, died_at)
             SELECT 'orders', 'order', 'rejected', 'E', 'order ' || n || ': missing field `customer`', '{}', now(),
                    now() - interval '1 hour' * (2462 - n)
             FROM generate_series(2062, 2461) n;
             INSERT INTO redrive.dead_letters (queue, kind, cause, error_class, error_message, payload, enqueued_at)
             VALUES ('orders', 'order', 'rejected', 'E', 'alone', '{}', now()),
                    ('orders', 'order', 'rejected', 'E', repeat('long ', 50), '{}', now()),
                    ('orders', 'order', 'rejected', 'E', repeat('long ', 50), '{}', now())",
        )
        .expect("letters");
    let screen = redrive(&db, &["dlq"]).exits_with(0);
    for line in [
        "  1     orders order E: order 2461: missing field `customer` (+399 alike)",
        "  2     orders order E: alone",
    ] {
        assert!(
            screen.out.lines().any(|shown| shown == line),
            "{line}: {}",
            screen.out
        );
    }
    let long = screen
        .out
        .lines()
        .find(|line| line.contains("long"))
        .expect("a line");
    assert!(
        long.ends_with("… (+1 alike)") && long.chars().count() == 80,
        "{long}"
    );

    // The newest letter that waits decides, quarantined ones too.
    client
        .batch_execute(
            "UPDATE redrive.dead_letters SET state = 'discarded', discard_reason = 'x' WHERE error_message LIKE '%2461%';
             UPDATE redrive.dead_letters SET state = 'quarantined' WHERE error_message LIKE '%2460%'",
        )
        .expect("closed");
    let screen = redrive(&db, &["dlq"]).exits_with(0);
    assert!(
        screen
            .out
            .contains("E: order 2460: missing field `customer` (+398 alike)"),
        "{}",
        screen.out
    );
    let shown = redrive(&db, &["dlq", "groups", "show", "1"]).exits_with(0);
    for what in [
        "order ?: missing field `customer`",
        "order 2062:",
        "Newest message:",
        "order 2460:",
    ] {
        assert!(shown.out.contains(what), "{what}: {}", shown.out);
    }
    let listed = redrive(&db, &["dlq", "groups", "--json"])
        .exits_with(0)
        .lines();
    assert_eq!(listed[0]["newest"], "order 2460: missing field `customer`");
    client
        .batch_execute("UPDATE redrive.dead_letters SET state = 'discarded', discard_reason = 'x'")
        .expect("closed");
    let all = redrive(&db, &["dlq", "groups", "--all", "--json"])
        .exits_with(0)
        .lines();
    let first = all
        .iter()
        .find(|group| group["id"] == 1)
        .expect("the group");
    assert_eq!(first["newest"], first["sample"], "no letter waits");
}

#[test]
fn the_on_call_screen_says_what_to_type_next() {
    let db = TestDatabase::migrated();
    let orders = db.queue("orders");
    let empty = redrive(&db, &["dlq"]).exits_with(0);
    assert!(empty.out.contains("All queues are empty."), "{}", empty.out);
    letters(&db, &orders, 3);
    let evil = "INSERT INTO redrive.dead_letters (queue, kind, cause, error_class, error_message, payload, enqueued_at)
        VALUES ('orders', 'order.placed', 'rejected', 'E', 'a long message with \u{1b}[2J in it ' || repeat('x', 300), '{}', now())";
    db.client().batch_execute(evil).expect("a letter");
    let group = redrive(&db, &["dlq", "groups", "--json"])
        .exits_with(0)
        .lines()[0]["id"]
        .to_string();
    let screen = redrive(&db, &["dlq"]).exits_with(0);
    for what in [
        "QUEUE",
        "Most frequent failures",
        &format!("redrive dlq list group={group}"),
        "3 waiting",
        "Oldest letter",
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
fn the_screen_names_ready_jobs_that_no_worker_takes() {
    let db = TestDatabase::migrated();
    let orders = db.queue("orders");
    orders.enqueue_many(&Order::up_to(3)).expect("three jobs");
    let screen = || redrive(&db, &["dlq"]).exits_with(0).out;
    let alone = screen();
    assert!(alone.contains("orders: no live worker, 3 ready"), "{alone}");
    let stats = redrive(&db, &["stats", "orders"]).exits_with(0);
    assert!(stats.out.contains("no worker"), "{}", stats.out);
    let worker = worker(&orders)
        .handle(|_: &Job<Hold>| Ok(()))
        .start()
        .expect("a worker of another kind");
    let named = screen();
    assert!(
        named.contains("orders: no live worker for 1 kind with 3 ready: order")
            && named.contains("redrive stats orders"),
        "{named}"
    );
    let json = redrive(&db, &["dlq", "--json"]).exits_with(0).lines();
    assert_eq!(json[0]["queues"][0]["unhandled_kinds"][0], "order");
    stop(worker);
    let stats = redrive(&db, &["stats", "--json"]).exits_with(0).lines();
    assert_eq!(
        (
            &stats[0]["kinds"][0]["kind"],
            &stats[0]["kinds"][0]["handled"]
        ),
        (&Value::from("order"), &Value::from(false))
    );
}

#[test]
fn the_screen_says_that_only_ignored_letters_wait() {
    let db = TestDatabase::migrated();
    let orders = db.queue("orders");
    letters(&db, &orders, 3);
    let groups = redrive(&db, &["dlq", "groups", "--json"])
        .exits_with(0)
        .lines();
    redrive(
        &db,
        &["dlq", "groups", "ignore", &groups[0]["id"].to_string()],
    )
    .exits_with(0);
    let screen = redrive(&db, &["dlq"]).exits_with(0).out;
    assert!(
        screen.contains("No letters are waiting, except 3 letters of ignored groups")
            && !screen.contains("Oldest letter"),
        "{screen}"
    );
    redrive(&db, &["dlq", "groups", "--state", "ignored"]).exits_with(0);
}
