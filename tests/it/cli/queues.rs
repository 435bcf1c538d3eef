//! `redrive queue`: pauses and resumes, and how `stats` shows them.

use redrive::limits::MAX_DELAY;
use redrive_tests::prelude::*;

#[test]
fn queues_are_listed_paused_and_resumed() {
    let db = TestDatabase::migrated();
    db.run("enqueue mails mail.sent 1");
    db.run("enqueue orders order.placed 1");
    db.run("stats").hides("PAUSED");
    // A pause of an unknown queue is listed, although it has neither jobs nor letters.
    db.run("queue pause order --reason x")
        .tells("warning: there is no queue `order`")
        .tells("redrive queue resume order");
    db.run("stats order --json").holds(&json!({"ready": 0}));
    db.run("queue resume order");
    let pause = |more: &str| db.run(format!("queue pause orders {more}"));
    pause("--reason 'an \u{1b}[31mupgrade'")
        .prints("queue orders is paused until it is resumed\n")
        .warns_not();
    let stats = db.run("stats");
    let lines: Vec<&str> = stats.out.lines().collect();
    has(lines[1], "unserved");
    assert!(lines[1].starts_with("mails"), "{}", lines[1]);
    has(lines[2], "paused");
    let last = lines[lines.len() - 1];
    for word in ["orders", "never", "upgrade", "@"] {
        has(last, word);
    }
    stats.hides("\u{1b}");

    // A second pause replaces the end and the reason.
    pause("--for 30m --reason 'it takes longer'").prints("queue orders is paused for 30m\n");
    pause("--until 2030-01-02T03:04 --reason stocktaking")
        .prints("queue orders is paused until 2030-01-02T03:04:00.000Z\n");
    let orders = db.run("stats orders --json").json();
    holds(&orders, &json!({"state": "paused", "ready": 1}));
    let pause = json!({"ends_at": "2030-01-02T03:04:00.000Z", "reason": "stocktaking"});
    holds(&orders["pause"], &pause);

    // The on-call screen shows it too.
    db.run("dlq")
        .shows("Paused queues")
        .shows("redrive queue resume orders")
        .shows("1 ready: stocktaking");
    db.run("stats mails --json")
        .holds(&json!({"state": "unserved", "pause": null}));
    db.run("queue resume orders")
        .prints("queue orders is resumed\n")
        .warns_not();
    db.fails(1, "queue resume orders")
        .tells("queue orders is not paused: redrive stats");
    db.run("dlq").hides("Paused queues");
    let acts = |which: &str| db.client().count(&format!("audit WHERE {which}"));
    assert_eq!(acts("person LIKE '%@%'"), 6, "the last one changed nothing");
    assert_eq!(acts("verb = 'resume_queue'"), 2);
    assert_eq!(acts("verb = 'pause_queue' AND reason = 'stocktaking'"), 1);
}

#[test]
fn the_state_of_a_queue_names_what_keeps_its_jobs_waiting() {
    let (db, queue) = TestDatabase::with_orders();
    let state = || {
        let shown = db.run("stats orders --json").json();
        shown["state"].as_str().unwrap().to_owned()
    };
    let job = NewJob::raw("order", "{}").unwrap();
    put(&queue, job.clone().delay(MAX_DELAY));
    assert_eq!(state(), "unserved");
    let options = HandlerOptions::new().dependency("gateway");
    let worker = worker(&queue).handle_kind("order", |_| Err(Failure::outage("down")));
    let worker = worker.options(options).handle_kind("mail", |_| Ok(()));
    let worker = worker.started();
    assert_eq!(state(), "running");
    // The outages open the breaker, which learns the kinds that it holds.
    queue.enqueue_jobs(&vec![job; 5]).unwrap();
    let mut client = db.client();
    wait_until("the breaker to open", SOON, || {
        client.count("breakers WHERE state = 'open'") == 1
    });
    client.sql("UPDATE redrive.breakers SET probe_at = 'infinity'");
    put(&queue, NewJob::raw("order", "{}").unwrap());
    wait_until("all kinds to be held", SOON, || state() == "breaker");
    db.run("breaker open queue:orders --reason x");
    assert_eq!(state(), "breaker");
    stop(worker);
    db.run("queue pause orders --reason x");
    assert_eq!(state(), "paused");
    db.run("queue resume orders")
        .tells("redrive breaker close queue:orders");
}
