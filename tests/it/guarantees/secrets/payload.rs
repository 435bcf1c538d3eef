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

#[test]
fn payloads_and_keys_are_never_logged() {
    let logged = Logged::start(LevelFilter::Trace);
    let (_test, queue) = TestDatabase::with_orders();
    let db = queue.database();
    let key = |n| {
        NewJob::new(&payment(n))
            .unwrap()
            .unique(format!("{CARD}-{n}"))
    };
    queue
        .enqueue_many(&[payment(1), payment(2), payment(3)])
        .unwrap();
    put(&queue, key(4));
    put(&queue, key(4));
    queue
        .enqueue_many(&(5..1200).map(payment).collect::<Vec<_>>())
        .unwrap();
    put(
        &queue,
        NewJob::raw("payment", &format!("{{\"number\": \"{CARD}\"}}")).unwrap(),
    );
    let working = worker(&queue)
        .slots(4)
        .lease(Duration::from_secs(2))
        .backoff(Backoff::fixed(Duration::ZERO))
        .runs(
            |job: &Job<Payment>| match (job.payload().number, job.attempt()) {
                (1, 1) => Err(Failure::retry("declined")),
                (2, _) => Err(Failure::reject("declined")),
                (3, 1) => panic!("declined"),
                _ => Ok(()),
            },
        );
    drained(&queue);
    db.redrives(&of_orders());
    drained(&queue);
    let foreign = ForeignFailure::new("cards", "1", "orders", "payment", CARD.as_bytes());
    db.captures(&foreign);
    db.listed(&of_orders());
    stop(working);
    assert_eq!(letters_in(db, "orders", LetterState::Open), 3);

    let lines = logged.lines();
    assert!(
        lines.iter().any(|line| line.contains(" redrive")),
        "it logs"
    );
    // The driver logs its statements at debug level: the programs turn that off, as SECURITY.md states.
    let ours: Vec<&String> = lines
        .iter()
        .filter(|line| !line.contains(" tokio_postgres") && !line.contains(" postgres"))
        .collect();
    nowhere(CARD, "the log", format!("{ours:#?}"));
    // Here the log contains the card number, so the test can detect it.
    assert!(
        lines.iter().any(|line| line.contains(CARD)),
        "the driver no longer logs payloads: update SECURITY.md"
    );
}

#[test]
fn trace_logging_contains_no_payload() {
    let (test, queue) = TestDatabase::with_orders();
    queue.enqueue_many(&[payment(1), payment(2)]).unwrap();
    let output = run(
        test.url(),
        &["work", "orders", "--exec", "exit 65", "--drain"],
    );
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
    let (test, queue) = TestDatabase::with_orders();
    // Rejected with the whole row in the details: by INSERT, by COPY, in the caller's transaction.
    test.client()
        .sql("ALTER TABLE redrive.jobs ADD CONSTRAINT no_cards CHECK (payload ->> 'card' IS NULL)");
    let many: Vec<Payment> = (0..1001).map(payment).collect();
    let mut client = test.client();
    let raw = client
        .execute(
            "INSERT INTO redrive.jobs (segment, queue, kind, payload) VALUES (0, 'q', 'k', $1::text::json)",
            &[&format!("{{\"card\": \"{CARD}\"}}")],
        )
        .expect_err("refused");
    assert!(
        error_text(&raw).contains(CARD),
        "the server repeats it: the test is not deaf"
    );
    let refused = [
        queue.enqueue(&payment(1)).expect_err("refused"),
        queue.enqueue_many(&many).expect_err("refused"),
        queue
            .enqueue_in(&mut client, &payment(1))
            .expect_err("refused"),
    ];
    for error in &refused {
        assert!(error.is_invalid(), "{error:?}");
        assert_eq!(error.sql_state().map(SqlState::code), Some("23514"));
        assert!(error_text(error).contains("no_cards"), "{error:?}");
        nowhere(CARD, "an error", error_text(error));
    }
    let payload = format!("{{\"card\": \"{CARD}\"}}");
    let output = run(test.url(), &["enqueue", "orders", "payment", &payload]);
    let typed = String::from_utf8_lossy(&output.stderr);
    has(&typed, "no_cards");
    assert!(output.status.code() == Some(2), "{typed}");
    nowhere(CARD, "the command", &output.stderr);

    // And a worker whose letter is rejected logs that without the letter.
    test.client()
        .sql("ALTER TABLE redrive.jobs DROP CONSTRAINT no_cards; \
             ALTER TABLE redrive.dead_letters ADD CONSTRAINT no_letters CHECK (error_class <> 'Declined')");
    queue.enqueue(&payment(1)).unwrap();
    let working =
        worker(&queue).runs(|_: &Job<Payment>| Err(Failure::reject("declined").class("Declined")));
    wait_until("the worker to log the rejection", SOON, || {
        logged
            .lines()
            .iter()
            .any(|line| line.contains("no_letters"))
    });
    stop(working);
    let ours: Vec<String> = logged
        .lines()
        .into_iter()
        .filter(|line| !line.contains(" tokio_postgres") && !line.contains(" postgres"))
        .collect();
    nowhere(CARD, "the log", format!("{ours:#?}"));
}
