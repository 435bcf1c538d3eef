//! Payloads and unique keys.

use redrive_tests::prelude::*;

use super::{error_text, nowhere, run};

/// A card number in payloads, keys and captured bytes.
const CARD: &str = "canary-4929-card";

/// A payment with a secret card number.
#[derive(Serialize, Deserialize)]
struct Payment {
    number: i64,
    card: String,
}

impl Payload for Payment {
    const KIND: &'static str = "payment";
}

fn payment(number: i64) -> Payment {
    Payment {
        number,
        card: CARD.to_owned(),
    }
}

/// Payments numbered from the first to before the end.
fn payments(first: i64, end: i64) -> Vec<Payment> {
    (first..end).map(payment).collect()
}

#[test]
fn payloads_and_keys_are_never_logged() {
    let logged = Logged::start(LevelFilter::Trace);
    let (_test, queue) = TestDatabase::with_orders();
    queue.enqueue_many(&payments(1, 4)).unwrap();
    for _ in 0..2 {
        let keyed = NewJob::new(&payment(4)).unwrap();
        put(&queue, keyed.unique(format!("{CARD}-4")));
    }
    queue.enqueue_many(&payments(5, 1200)).unwrap();
    let odd = format!("{{\"number\": \"{CARD}\"}}");
    put(&queue, NewJob::raw("payment", &odd).unwrap());
    let handler = |job: &Job<Payment>| match (job.payload().number, job.attempt()) {
        (1, 1) => Err(Failure::retry("declined")),
        (2, _) => Err(Failure::reject("declined")),
        (3, 1) => panic!("declined"),
        _ => Ok(()),
    };
    let working = lively(&queue).slots(4).runs(handler);
    drained(&queue);
    queue.redrives(&of_orders());
    drained(&queue);
    let foreign = ForeignFailure::new("cards", "1", "orders", "payment", CARD.as_bytes());
    queue.captures(&foreign);
    queue.listed(&of_orders());
    stop(working);
    assert_eq!(in_state(&queue, LetterState::Open), 3);

    let ours = of_redrive(&logged);
    has(&ours, " redrive");
    nowhere(CARD, "the log", ours);
    // Here the log contains the card number, so the test can detect it. If not, update SECURITY.md.
    has(logged.lines().join("\n"), CARD);
}

/// Returns the log without the driver, which logs its statements at debug level: the programs turn that off, as
/// SECURITY.md states.
fn of_redrive(logged: &Logged) -> String {
    let mut lines = logged.lines();
    lines.retain(|line| !line.contains(" tokio_postgres") && !line.contains(" postgres"));
    lines.join("\n")
}

#[test]
fn trace_logging_contains_no_payload() {
    let (test, queue) = TestDatabase::with_orders();
    queue.enqueue_many(&[payment(1), payment(2)]).unwrap();
    let words = ["work", "orders", "--exec", "exit 65", "--drain"];
    let output = run(test.url(), &words);
    assert!(output.status.success());
    let log = String::from_utf8_lossy(&output.stderr);
    has(&log, "INFO");
    has(&log, "started with");
    nowhere(CARD, "the log", &output.stderr);
    nowhere(CARD, "the output", &output.stdout);
}

#[test]
fn errors_do_not_repeat_rejected_values() {
    let logged = Logged::start(LevelFilter::Debug);
    let (test, queue, mut client) = TestDatabase::with_session();
    // Rejected with the whole row in the details: by INSERT, by COPY, in the caller's transaction.
    test.sql("ALTER TABLE redrive.jobs ADD CONSTRAINT no_cards CHECK (payload ->> 'card' IS NULL)");
    let payload = format!("{{\"card\": \"{CARD}\"}}");
    let insert = "INSERT INTO redrive.jobs (segment, queue, kind, payload) VALUES (0, 'q', 'k', $1::text::json)";
    let raw = client.execute(insert, &[&payload]).expect_err("refused");
    // The server repeats it: the test is not deaf.
    has(error_text(&raw), CARD);
    for refused in [
        queue.enqueue(&payment(1)).map(drop),
        queue.enqueue_many(&payments(0, 1001)).map(drop),
        queue.enqueue_in(&mut client, &payment(1)).map(drop),
    ] {
        let error = refused.expect_err("a card");
        assert!(error.is_invalid(), "{error:?}");
        assert_eq!(error.sql_state().map(SqlState::code), Some("23514"));
        has(error_text(&error), "no_cards");
        nowhere(CARD, "an error", error_text(&error));
    }
    let output = run(test.url(), &["enqueue", "orders", "payment", &payload]);
    let typed = String::from_utf8_lossy(&output.stderr);
    has(&typed, "no_cards");
    assert!(output.status.code() == Some(2), "{typed}");
    nowhere(CARD, "the command", &output.stderr);

    // And a worker whose letter is rejected logs that without the letter.
    test.sql("ALTER TABLE redrive.jobs DROP CONSTRAINT no_cards; \
             ALTER TABLE redrive.dead_letters ADD CONSTRAINT no_letters CHECK (error_class <> 'Declined')");
    queue.enqueue(&payment(1)).unwrap();
    let declined = |_: &Job<Payment>| Err(Failure::reject("declined").class("Declined"));
    let working = worker(&queue).runs(declined);
    wait_until("the worker to log the rejection", SOON, || {
        logged.lines().join("\n").contains("no_letters")
    });
    stop(working);
    nowhere(CARD, "the log", of_redrive(&logged));
}
