//! Redaction: redacted values are removed at the moment of death, however the job dies.

mod existing;
mod forced;
mod values;

use redrive_tests::prelude::*;

const SECRET: &str = "4111111111111111";

#[derive(Debug, Serialize, Deserialize)]
struct Charge {
    card: String,
    amount: i64,
}

impl Payload for Charge {
    const KIND: &'static str = "charge";
}

fn charge() -> Charge {
    Charge {
        card: SECRET.to_owned(),
        amount: 7,
    }
}

fn cards(db: &Database) -> RedactionId {
    let cards = Redaction::new().queue("orders").path("/card");
    db.redacts(&cards.pattern(r"\d{13,19}"))
}

/// Returns the number of rows that contain the secret.
fn found(client: &mut Client) -> i64 {
    client.ask("SELECT count(*) FROM ( \
               SELECT to_jsonb(l)::text || coalesce(encode(l.raw, 'escape'), '') AS held FROM redrive.dead_letters l \
               UNION ALL SELECT to_jsonb(g)::text FROM redrive.groups g \
               UNION ALL SELECT to_jsonb(d)::text FROM redrive.details d) kept \
             WHERE position($1 IN held) > 0", &[&SECRET])
}

fn die(queue: &Queue, failure: fn() -> Failure) {
    work_off(queue, move |_: &Job<Charge>| Err(failure()));
}

fn declined() -> Failure {
    let why = "no funds; ".repeat(100);
    let failure = Failure::retry(format!("card {SECRET} was declined"));
    let failure = failure.class("Declined");
    failure.detail(format!("caused by: card {SECRET}: {why}"))
}

#[track_caller]
fn is_redacted(db: &Database, id: JobId) {
    let letter = db.letter(id);
    let payload = letter.payload.expect("JSON");
    assert_eq!(payload.get(), r#"{"card": "[redacted]", "amount": 7}"#);
}

#[test]
fn a_worker_stores_no_redacted_value() {
    let (test, queue) = TestDatabase::with_orders();
    let (db, mut client) = (queue.database(), test.client());
    cards(db);
    let job = NewJob::new(&charge()).unwrap().max_attempts(3);
    // A checkpoint is a header, too.
    let id = put(&queue, job.header("last", format!("card {SECRET}")));
    die(&queue, declined);
    is_redacted(db, id);
    let letter = db.letter(id);
    assert_eq!(letter.error_message, "card [redacted] was declined");
    let headers = letter.headers.expect("headers");
    assert_eq!(headers.get(), r#"{"last": "card [redacted]"}"#);
    let detail = letter.error_detail.unwrap();
    has(detail, "caused by: card [redacted]: no funds");
    assert_eq!(letter.history.len(), 3);
    for attempt in letter.history {
        let message = attempt.error_message.as_deref();
        assert_eq!(message, Some("card [redacted] was declined"));
    }
    assert_eq!(found(&mut client), 0);

    // Neither does a sink that rejects a letter.
    let other = ForeignFailure::new("kafka", "1", "orders", "charge", *b"{}");
    let other = db.captures(&other);
    let rejects = |_: &Letter| Err(declined());
    let deliver = |id| db.dlq().deliver(&only(id), &rejects, &maria()).unwrap();
    assert_eq!(deliver(id).skipped, [id], "its payload was redacted");
    assert_eq!(deliver(other).failed.len(), 1);
    let events = "SELECT events::text FROM redrive.dead_letters WHERE id = $1";
    let events: String = client.ask(events, &[&other.get()]);
    has(events, "card [redacted] was declined");
    assert_eq!(found(&mut client), 0);

    // The redriven job is redacted, and so is its next death.
    let forced = RedriveOptions::new().force();
    db.redrives_with(&only(id), &forced);
    die(&queue, declined);
    is_redacted(db, id);
    assert_eq!(found(&mut client), 0);
}

#[test]
fn a_rule_applies_to_the_letters_after_it_in_one_statement() {
    let (_test, mut client) = TestDatabase::with_client();
    client.sql(&format!(
        "DO $$ BEGIN
             PERFORM redrive.capture('kafka', '1', 'orders', 'charge', '{{\"card\": 1}}');
             PERFORM redrive.add_redaction('orders', 'charge', '{{/card}}');
             PERFORM redrive.capture('kafka', '2', 'orders', 'charge', '{{\"card\": {SECRET}}}');
         END $$"
    ));
    assert_eq!(found(&mut client), 0);
}

#[test]
fn a_capture_stores_no_redacted_value() {
    let (test, queue) = TestDatabase::with_orders();
    let (db, mut client) = (queue.database(), test.client());
    cards(db);
    let json = format!("{{\"card\": \"{SECRET}\", \"amount\": 7}}");
    let raw = |bytes: &[u8]| [bytes, SECRET.as_bytes()].concat();
    let (broken, binary) = (raw(b"{\"card\": "), raw(b"\xff\0 card "));
    for (position, bytes) in [("1", json.as_bytes()), ("2", &*broken), ("3", &*binary)] {
        let foreign = ForeignFailure::new("kafka", position, "orders", "charge", bytes);
        let foreign = foreign
            .header("x-card", SECRET)
            .detail(format!("{SECRET} again"));
        db.captures(&foreign.error("Declined", format!("{SECRET} was declined")));
    }
    // The same through SQL.
    client.change("SELECT redrive.capture('kafka', '4', 'orders', 'charge', convert_to($1, 'UTF8'), error_message => $1)", &[&json]);
    assert_eq!(found(&mut client), 0);
    let kept = "SELECT coalesce(payload::text, 'raw ' || encode(raw, 'escape'))
                FROM redrive.dead_letters ORDER BY position";
    let kept: Vec<String> = client.column(kept, &[]);
    let json = r#"{"card": "[redacted]", "amount": 7}"#;
    let expected = [json, "raw {\"card\": [redacted]", "raw [redacted]", json];
    assert_eq!(kept, expected);
}

#[test]
fn the_job_of_a_lost_worker_stores_no_redacted_value() {
    let (test, queue) = TestDatabase::with_orders();
    let (db, mut client) = (queue.database(), test.client());
    cards(db);
    let gate = Gate::new();
    let worker = worker(&queue).runs(gate.passing::<Charge>());
    let id = queue.enqueue(&charge()).unwrap();
    gate.wait_for(1);
    assert_eq!(db.cancels(id), Cancelled::Asked);
    assert_eq!(expire_leases(&mut client), [Lost::Dead(id)]);
    is_redacted(db, id);
    assert_eq!(found(&mut client), 0);
    gate.open();
    stop(worker);
}

#[test]
fn a_death_redacts_what_the_letter_has_of_earlier_ones() {
    let (test, queue) = TestDatabase::with_orders();
    let (db, mut client) = (queue.database(), test.client());
    let id = queue.enqueue(&charge()).unwrap();
    die(&queue, declined);
    let rejects = |_: &Letter| Err(declined());
    db.dlq().deliver(&only(id), &rejects, &maria()).unwrap();
    cards(db);
    queue.redrives(&only(id));
    die(&queue, || Failure::reject("no"));
    is_redacted(db, id);
    let letter: String = client.ask("SELECT to_jsonb(l)::text FROM redrive.dead_letters l", &[]);
    assert!(!letter.contains(SECRET), "{letter}");
}

#[test]
fn an_unreadable_payload_is_redacted_when_its_redriven_job_dies() {
    let (test, queue) = TestDatabase::with_orders();
    let (db, mut client) = (queue.database(), test.client());
    // As jsonb, the numbers would have two million digits.
    let numbers = ["1e9999"; 200].join(",");
    let json = format!(r#"{{"card": "{SECRET}", "numbers": [{numbers}]}}"#);
    let id = put(&queue, NewJob::raw("charge", &json).unwrap());
    db.cancels(id);
    let event = ForeignFailure::new("kafka", "1", "orders", "charge", json.into_bytes());
    let captured = db.captures(&event);
    cards(db);
    queue.redrives(&LetterFilter::new());
    for id in [id, captured] {
        assert_eq!(db.cancels(id), Cancelled::Dead);
        let letter = db.letter(id);
        assert!(letter.payload.is_none());
        assert_eq!(letter.raw.as_deref(), Some(&b"[redacted]"[..]));
        assert_eq!(letter.redacted, [""]);
    }
    assert_eq!(found(&mut client), 0);
}

#[test]
fn redacted_texts_that_grow_fit_into_the_letter() {
    let (_test, queue) = TestDatabase::with_orders();
    // It also matches nothing, before each letter.
    queue.redacts(&Redaction::new().pattern("[0-9]?"));
    let job = NewJob::new(&charge()).unwrap();
    let job = (0..500).fold(job, |job, n| job.header(format!("h{n}"), "1".repeat(100)));
    let id = put(&queue, job);
    let keyed = || Failure::reject("no").failure_key("x".repeat(100));
    die(&queue, keyed);
    let letter = queue.letter(id);
    has(letter.failure_key.unwrap(), "[redacted]x[redacted]x");
    let headers = letter.headers.expect("headers");
    has(headers.get(), r#""h499": "[redacted]""#);
}

#[test]
fn a_redaction_keeps_the_version_of_the_payload() {
    let (test, queue) = TestDatabase::with_orders();
    queue.database().redacts(&Redaction::new().pattern("[0-9]"));
    let headers = r#"{"redrive-payload-version": "2"}"#;
    let enqueue =
        format!("SELECT redrive.enqueue('orders', 'charge', '{{}}', headers => '{headers}')");
    let id = JobId::new(scalar(&mut test.client(), &enqueue));
    queue.cancels(id);
    let kept = queue.letter(id).headers.expect("headers");
    assert_eq!(kept.get(), headers);
}

#[test]
fn a_redaction_that_cannot_apply_is_rejected() {
    let (test, queue) = TestDatabase::with_orders();
    let (db, mut client) = (queue.database(), test.client());
    for bad in [
        Redaction::new(),
        Redaction::new().path("card"),
        Redaction::new().path("/a~b"),
        Redaction::new().path("/a\0"),
        Redaction::new().pattern(""),
        Redaction::new().pattern("x").queue(" "),
        Redaction::new().pattern("(unclosed"),
        Redaction::new().pattern("a{2,1}"),
        Redaction::new().pattern("x".repeat(1025)),
        // With a back reference, one match can take for ever.
        Redaction::new().pattern(r"(a*)*\1"),
        Redaction::new().pattern(r"(a*)*\\\1"),
    ] {
        let added = db.dlq().redactions().add(&bad, &Operator::default());
        assert!(added.is_err_and(|error| error.is_invalid()), "{bad:?}");
    }
    // Nor by writing to the table.
    for bad in [
        "paths) VALUES ('{card}'",
        "patterns) VALUES ('{(}'",
        "paths) VALUES ('{/a~2}'",
        "queue) VALUES ('q'",
    ] {
        client
            .batch_execute(&format!("INSERT INTO redrive.redactions ({bad})"))
            .expect_err(bad);
    }
    assert!(db.dlq().redactions().list().unwrap().is_empty());
    client.sql(r"SELECT redrive.check_pattern(E'a backslash: \\\\1, a digit: \\d')");
    let id = queue.enqueue(&charge()).unwrap();
    die(&queue, || Failure::reject("no"));
    assert_eq!(db.letter(id).cause, DeathCause::Rejected);
}
