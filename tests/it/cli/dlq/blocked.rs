//! Redrives whose jobs wait behind a breaker or for a worker say so.

use redrive_tests::prelude::*;

use super::super::with_letters;

#[test]
fn a_redrive_into_an_open_breaker_warns_and_the_run_names_it() {
    let (db, _, ids) = with_letters(3);
    db.run("breaker open queue:orders --reason upgrade");
    let warns = |err: &str, letters: &str| {
        let what =
            format!("{letters} would wait until it closes: redrive breaker close queue:orders");
        has(err, "warning: breaker queue:orders is open for");
        has(err, &what);
    };

    let preview = db.run("dlq redrive orders --json");
    warns(&preview.err, "3 letters");
    let gated = json!({"breaker": "queue:orders", "queue": "orders", "letters": 3});
    holds(&preview.json()["gated"][0], &gated);

    let one = db.run(format!("dlq redrive {}", ids[0]));
    warns(&one.err, "1 letter");

    // A canary behind the breaker: its run says what it waits for.
    let created = db.run(CANARY);
    warns(&created.err, "2 letters");
    let show = || db.run("dlq runs show 1");
    show().hides("blocked");
    send_the_canary(&db);
    show()
        .shows("blocked          breaker queue:orders is open for ")
        .shows(": 1 job; redrive breaker close queue:orders")
        .shows(NO_WORKER);
    let gated = &db.run("dlq runs show 1 --json").json()["gated"][0];
    holds(gated, &json!({"breaker": "queue:orders", "letters": 1}));

    db.run("breaker close queue:orders");
    show().hides("breaker").shows(NO_WORKER);
    db.run("work orders --exec true --drain");
    show().hides("blocked");
}

const NO_WORKER: &str =
    "blocked          no live worker of queue `orders` handles kind `order.placed`: 1 job";

/// Creates the run 1.
const CANARY: &str = "dlq redrive orders --canary 1 --detach --yes";

/// Lets a driver send the canary of the run 1, so that it waits for its outcome.
fn send_the_canary(db: &TestDatabase) {
    let open = db.open();
    let driver = open.dlq().runs().drive(RunId::new(1)).unwrap();
    driver.expect("a run without a driver").step().unwrap();
}

#[test]
fn a_redrive_into_a_paused_queue_warns_and_the_run_names_the_pause() {
    let (db, _, ids) = with_letters(3);
    db.run("queue pause orders --reason upgrade");
    // The pause is named even if the breaker is open too.
    db.run("breaker open queue:orders");
    let preview = db.run("dlq redrive orders --json");
    preview
        .tells("warning: queue `orders` is paused for")
        .tells("3 letters would wait until it is resumed: redrive queue resume orders");
    let gated = &preview.json()["gated"];
    assert_eq!(gated.as_array().map(Vec::len), Some(1));
    holds(
        &gated[0],
        &json!({"breaker": null, "paused": true, "letters": 3}),
    );
    db.run(format!("dlq redrive {} --yes", ids[0]));
    db.run(CANARY);
    send_the_canary(&db);
    db.run("dlq runs show 1")
        .shows("blocked          queue `orders` is paused for ")
        .shows(": 1 job; redrive queue resume orders");
    db.run("queue resume orders");
    db.run("dlq runs show 1").shows("breaker queue:orders");
}

#[test]
fn kinds_without_a_worker_are_one_warning_per_queue() {
    let db = TestDatabase::migrated();
    let letters = "INSERT INTO redrive.dead_letters
             (queue, kind, cause, error_class, error_message, payload, enqueued_at)
         SELECT 'orders', 'kind.' || n, 'rejected', 'Timeout', 'no answer', '{}', now() FROM generate_series(1, 32) n";
    db.client().sql(letters);
    let preview = db.run("dlq redrive orders");
    let warning =
        "warning: no live worker of queue `orders` handles 32 of its kinds: 32 letters would wait";
    assert_eq!(preview.err.matches("warning").count(), 1, "{}", preview.err);
    preview.tells(warning);
}

#[test]
fn only_the_letters_that_a_redrive_would_send_are_counted() {
    let (db, _, ids) = with_letters(4);
    // Two of them compete for a unique key.
    let key = "UPDATE redrive.dead_letters SET unique_key = 'k' WHERE id = ANY ($1)";
    let two: Vec<i64> = ids[..2].iter().map(|id| id.get()).collect();
    db.client().change(key, &[&two]);
    let warning =
        |letters: &str| format!("kind `order.placed`: {letters} would wait until one does");
    for (limit, letters, words) in [("4", 3, "3 letters"), ("1", 1, "1 letter")] {
        let preview = db.run(format!("dlq redrive orders --limit {limit} --json"));
        preview.tells(warning(words));
        assert_eq!(preview.json()["unserved"][0]["letters"], letters);
    }
}
