//! Redrives whose jobs wait behind a breaker or for a worker say so.

use redrive_tests::prelude::*;

use super::super::with_letters;

#[test]
fn a_redrive_into_a_closed_gate_warns_and_the_run_names_it() {
    let (db, _, ids) = with_letters(3);
    db.run("breaker open queue:orders --reason upgrade");
    let would = |letters: &str| {
        format!("{letters} would wait until it closes: redrive breaker close queue:orders")
    };
    let preview = db.run("dlq redrive orders --json");
    preview
        .tells("warning: breaker queue:orders is open for")
        .tells(would("3 letters"));
    let gated = json!({"breaker": "queue:orders", "queue": "orders", "letters": 3});
    holds(&preview.json()["blocked"][0], &gated);
    db.run(format!("dlq redrive {}", ids[0]))
        .tells(would("1 letter"));

    // The run says what its canary waits for.
    db.run("dlq redrive orders --canary 1 --detach --yes")
        .tells(would("2 letters"));
    let show = || db.run("dlq runs show 1");
    show().hides("blocked");
    let open = db.open();
    let driver = open.dlq().runs().drive(RunId::new(1)).unwrap();
    driver.expect("a run without a driver").step().unwrap();
    let no_worker =
        "blocked          no live worker of queue `orders` handles kind `order.placed`: 1 job";
    show()
        .shows("blocked          breaker queue:orders is open for ")
        .shows(": 1 job; redrive breaker close queue:orders")
        .shows(no_worker);

    // A pause is named even if the breaker is open too.
    db.run("queue pause orders --reason upgrade");
    let preview = db.run("dlq redrive orders --json");
    preview
        .tells("warning: queue `orders` is paused for")
        .tells("1 letter would wait until it is resumed: redrive queue resume orders");
    let gated = &preview.json()["blocked"];
    assert_eq!(gated.as_array().map(Vec::len), Some(1));
    holds(&gated[0], &json!({"breaker": null, "paused": true}));
    show()
        .shows("blocked          queue `orders` is paused for ")
        .shows(": 1 job; redrive queue resume orders");
    db.run("queue resume orders");
    show().shows("breaker queue:orders");
    db.run("breaker close queue:orders");
    show().hides("breaker").shows(no_worker);
    db.run("work orders --exec true --drain");
    show().hides("blocked");
}

#[test]
fn kinds_without_a_worker_are_one_warning_per_queue() {
    let db = TestDatabase::migrated();
    let letters = "INSERT INTO redrive.dead_letters
             (queue, kind, cause, error_class, error_message, payload, enqueued_at)
         SELECT 'orders', 'kind.' || n, 'rejected', 'Timeout', 'no answer', '{}', now() FROM generate_series(1, 32) n";
    db.client().sql(letters);
    // It handles the first kind only.
    let queue = db.queue("orders");
    let worker = worker(&queue).handle_kind("kind.1", |_| Ok(())).started();
    let preview = db.run("dlq redrive orders");
    let warning =
        "warning: no live worker of queue `orders` handles 31 of its kinds: 31 letters would wait";
    assert_eq!(preview.err.matches("warning").count(), 1, "{}", preview.err);
    preview.tells(warning);
    stop(worker);
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
        assert_eq!(preview.json()["blocked"][0]["letters"], letters);
    }
}
