//! Redrives whose jobs wait behind a breaker or for a worker say so.

use redrive::dlq::runs::RunId;
use redrive_tests::TestDatabase;

use super::super::{letters, redrive};

#[test]
fn a_redrive_into_an_open_breaker_warns_and_the_run_names_it() {
    let db = TestDatabase::migrated();
    let queue = db.queue("orders");
    let ids = letters(&db, &queue, 3);
    redrive(
        &db,
        &["breaker", "open", "queue:orders", "--reason", "upgrade"],
    )
    .exits_with(0);
    let warns = |err: &str, letters: &str| {
        let what =
            format!("{letters} would wait until it closes: redrive breaker close queue:orders");
        assert!(
            err.contains("warning: breaker queue:orders is open for") && err.contains(&what),
            "{err}"
        );
    };

    let preview = redrive(&db, &["dlq", "redrive", "orders", "--json"]).exits_with(0);
    warns(&preview.err, "3 letters");
    let gated = &preview.lines()[0]["gated"][0];
    assert_eq!(
        (&gated["breaker"], &gated["queue"], &gated["letters"]),
        (&"queue:orders".into(), &"orders".into(), &3.into())
    );

    let one = redrive(&db, &["dlq", "redrive", "--id", &ids[0].to_string()]).exits_with(0);
    warns(&one.err, "1 letter");

    // A canary behind the breaker: its run says what it waits for.
    let canary = [
        "dlq", "redrive", "orders", "--canary", "1", "--detach", "--yes", "--json",
    ];
    let created = redrive(&db, &canary).exits_with(0);
    warns(&created.err, "2 letters");
    let run = created.lines()[0]["id"].to_string();
    let show = || {
        redrive(&db, &["dlq", "runs", "show", &run])
            .exits_with(0)
            .out
    };
    assert!(
        !show().contains("waiting for"),
        "nothing was sent: {}",
        show()
    );
    // The driver sends the canary and waits for its outcome.
    let id = RunId::new(run.parse().expect("the id of a run"));
    let open = db.open();
    let runs = open.dlq().runs();
    let mut driver = runs.drive(id).unwrap().expect("a run without a driver");
    driver.step().unwrap();
    let shown = show();
    for line in [
        "waiting for      breaker queue:orders, open for ",
        ": 1 job; redrive breaker close queue:orders",
        "waiting for      a worker of queue `orders` for kind `order.placed`: 1 job",
    ] {
        assert!(shown.contains(line), "{line}: {shown}");
    }
    let json = redrive(&db, &["dlq", "runs", "show", &run, "--json"]).exits_with(0);
    let gated = &json.lines()[0]["gated"][0];
    assert_eq!(
        (&gated["breaker"], &gated["letters"]),
        (&"queue:orders".into(), &1.into())
    );

    redrive(&db, &["breaker", "close", "queue:orders"]).exits_with(0);
    assert!(!show().contains("breaker"), "{}", show());
    assert!(show().contains("waiting for      a worker"), "{}", show());
    redrive(&db, &["work", "orders", "--exec", "true", "--drain"]).exits_with(0);
    assert!(!show().contains("waiting for"), "{}", show());
}

#[test]
fn kinds_without_a_worker_are_one_warning_per_queue() {
    let db = TestDatabase::migrated();
    let letters = "INSERT INTO redrive.dead_letters
             (queue, kind, cause, error_class, error_message, payload, enqueued_at)
         SELECT 'orders', 'kind.' || n, 'rejected', 'Timeout', 'no answer', '{}', now() FROM generate_series(1, 32) n";
    db.client().batch_execute(letters).expect("letters");
    let preview = redrive(&db, &["dlq", "redrive", "orders"]).exits_with(0);
    let warning = "warning: no live worker takes 32 kinds of `orders` (32 letters would wait)";
    assert_eq!(preview.err.matches("warning").count(), 1, "{}", preview.err);
    assert!(preview.err.contains(warning), "{}", preview.err);
}
