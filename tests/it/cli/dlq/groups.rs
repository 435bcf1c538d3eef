//! Commands on groups, and the screen for the person on call.

use redrive_tests::prelude::*;

use super::super::letters;

#[test]
fn groups_can_be_listed_shown_and_annotated() {
    let (db, orders) = TestDatabase::with_orders();
    db.fails(1, "dlq groups");
    db.run("breaker open queue:mails");
    db.run("dlq")
        .shows("All queues are empty.")
        .shows("Open breakers");
    letters(&db, &orders, 3);
    let groups = db.run("dlq groups --json").lines();
    assert_eq!(groups.len(), 1);
    assert_eq!(groups[0]["open"], 3);
    let id = &groups[0]["id"];
    db.run("dlq groups list orders")
        .shows("open")
        .shows("exit:65");
    db.run(format!(
        "dlq groups set {id} --note 'see the runbook' --owner payments"
    ));
    db.run(format!("dlq groups ack {id} --dry-run"))
        .shows("1 group matches; 1 would be acknowledged, with 3 letters.")
        .shows("To act, leave out --dry-run.\n");
    db.run(format!("dlq groups ack {id}"))
        .shows("is acknowledged, owned by payments");
    db.run(format!("dlq groups show {id}"))
        .shows("3 open")
        .shows("see the runbook")
        .shows("payments")
        .shows("deaths")
        .shows("redrive dlq list group=");
    db.run(format!("dlq groups set {id} --note ' '"));
    db.run(format!("dlq groups show {id}"))
        .hides("see the runbook")
        .shows("payments");
    db.run(format!("dlq groups ignore {id}"));
    db.run("dlq")
        .shows("No letters are waiting, except 3 letters of ignored groups")
        .hides("Oldest letter");
    db.run(format!("dlq groups reopen {id}"));
    db.run(format!("dlq groups resolve {id} --reason 'fixed in 1.4.3'"));
    db.fails(1, "dlq groups list --state open");
    db.run("dlq").shows("resolved");
    letters(&db, &orders, 1);
    db.run("dlq groups").shows("REGRESSION");
    db.run(format!("dlq groups ack {id}"))
        .shows("is acknowledged REGRESSION");
    db.run("dlq").shows("acknowledged REGRESSION");
    db.fails(1, "dlq groups show 999");
    db.fails(1, "dlq groups ack 999");
    db.run("audit --verb resolve_group").shows("fixed in 1.4.3");
    let audit = db.run("audit");
    for verb in ["describe", "acknowledge", "ignore", "reopen"] {
        audit.shows(format!("{verb}_group"));
    }
    db.run("audit --since 1h --limit 2").tells("--before");
    db.fails(1, "audit --verb nothing");
}

#[test]
fn the_on_call_screen_shows_the_newest_message_and_how_many_are_alike() {
    let (db, mut client) = TestDatabase::with_client();
    client.sql("INSERT INTO redrive.dead_letters
                 (queue, kind, cause, error_class, error_message, payload, enqueued_at, died_at)
             SELECT 'orders', 'order', 'rejected', 'E', 'order ' || n || ': missing field `customer`', '{}', now(),
                    now() - interval '1 hour' * (2462 - n)
             FROM generate_series(2062, 2461) n;
             INSERT INTO redrive.dead_letters (queue, kind, cause, error_class, error_message, payload, enqueued_at)
             VALUES ('orders', 'order', 'rejected', 'E', 'alone', '{}', now()),
                    ('orders', 'order', 'rejected', 'E', repeat('long ', 50), '{}', now()),
                    ('orders', 'order', 'rejected', 'E', repeat('long ', 50), '{}', now())");
    let screen = db.run("dlq");
    screen
        .shows("\n  1 E: order 2461: missing field `customer`\n        orders order: open, 400 waiting, last ")
        .shows("\n  2 E: alone\n");
    let long = screen.out.lines().find(|line| line.contains("long"));
    let long = long.expect("a line");
    assert!(long.ends_with('…'), "{long}");
    assert_eq!(long.chars().count(), 80, "{long}");

    // The newest letter that waits decides, quarantined ones too.
    client.sql("UPDATE redrive.dead_letters SET state = 'discarded', discard_reason = 'x' WHERE error_message LIKE '%2461%';
             UPDATE redrive.dead_letters SET state = 'quarantined' WHERE error_message LIKE '%2460%'");
    db.run("dlq")
        .shows("E: order 2460: missing field `customer`\n        orders order: open, 399 waiting (1 quarantined)");
    db.run("dlq groups show 1")
        .shows("order ?: missing field `customer`")
        .shows("Newest message:")
        .shows("order 2460:");
    client.sql("UPDATE redrive.dead_letters SET state = 'discarded', discard_reason = 'x'");
    let all = db.run("dlq groups --all --json").lines();
    let first = all.iter().find(|group| group["id"] == 1);
    let messages = first.map(|group| [&group["newest_message"], &group["title"]]);
    let [newest, title] = messages.expect("the group");
    assert_eq!(newest, title, "no letter waits");
}

#[test]
fn the_screen_names_ready_jobs_that_no_worker_takes() {
    let (db, orders) = TestDatabase::with_orders();
    orders.enqueue_many(&Order::up_to(3)).expect("three jobs");
    db.run("dlq").shows("orders: no live worker, 3 ready");
    db.run("stats orders").shows("no worker");
    let worker = worker(&orders).handle(|_: &Job<Hold>| Ok(())).started();
    db.run("dlq")
        .shows("orders: no live worker for 1 kind with 3 ready: order")
        .shows("redrive stats orders");
    stop(worker);
    let unhandled = json!({"kind": "order", "handled": false});
    holds(&db.run("stats --json").json()["kinds"][0], &unhandled);
}
