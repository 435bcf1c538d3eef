//! Death: the cause of death and the contents of the letter.

use redrive_tests::prelude::*;

#[test]
fn a_generation_that_a_job_claims_does_not_keep_its_letter_from_a_redrive() {
    let (test, queue) = TestDatabase::with_orders();
    let insert =
        "INSERT INTO redrive.jobs (id, segment, rank, queue, kind, payload, meta.generation)
                  VALUES (1, 0, 1, 'orders', 'order', '{\"number\": 1}', 2147483647)";
    test.sql(insert);
    work_off(&queue, |_: &Job<Order>| Err(Failure::reject("broken")));
    let id = JobId::new(1);
    assert_eq!(queue.letter(id).generation, 0);
    assert_eq!(queue.redrives(&only(id)).redriven, [id]);
}

#[test]
fn a_name_that_no_letter_may_have_does_not_keep_its_job_from_dying() {
    let (test, queue) = TestDatabase::with_orders();
    let insert = "INSERT INTO redrive.jobs (id, segment, queue, kind, payload)
                  VALUES (1, 0, 'orders', E'or\\nder ', '{}'), (2, 0, E' or\\tders', ' ', '{}')";
    test.sql(insert);
    for (id, name, kind) in [(1, "orders", "or der"), (2, "or ders", "?")] {
        queue.cancels(JobId::new(id));
        let letter = queue.letter(JobId::new(id));
        assert_eq!((&*letter.queue, &*letter.kind), (name, kind));
    }
}

#[test]
fn an_exhausted_job_lists_each_of_its_attempts() {
    let (_test, queue) = TestDatabase::with_orders();
    let worker = worker(&queue).version("1.4.2").runs(|_: &Job<Order>| {
        "USD ".parse::<i64>()?;
        Ok(())
    });
    let id = put(&queue, new_order(12).priority(5).max_attempts(3));
    let counts = finish(&queue, worker).stats;
    assert_eq!((counts.retried, counts.dead, counts.done), (2, 1, 0));

    let letter = queue.letter(id);
    assert_eq!((&*letter.queue, &*letter.kind), ("orders", "order"));
    let died = (letter.cause, letter.state.as_str());
    assert_eq!(died, (DeathCause::Exhausted, "open"));
    assert_eq!(content(&letter), Some(r#"{"number":12}"#));
    let counts = (letter.attempts, letter.max_attempts, letter.generation);
    assert_eq!(counts, (3, 3, 0));
    assert_eq!(letter.priority, 5);
    assert!(letter.error_class.ends_with("ParseIntError"));
    let digit = "invalid digit found in string";
    assert_eq!(letter.error_message, digit);
    assert!(letter.worker.is_some() && letter.host.is_some());
    assert!(letter.enqueued_at < letter.died_at);

    assert_eq!(letter.history.len(), 3);
    let outcomes = ["failed", "failed", "exhausted"];
    for ((at, attempt), outcome) in (1..).zip(&letter.history).zip(outcomes) {
        assert_eq!((attempt.generation, attempt.attempt), (0, at));
        assert_eq!(attempt.outcome, outcome);
        assert_eq!(attempt.error_message.as_deref(), Some(digit));
        assert_eq!(attempt.error_class.as_ref(), Some(&letter.error_class));
        for version in [&attempt.version, &letter.version] {
            assert_eq!(version.as_deref(), Some("1.4.2"));
        }
        assert!(attempt.run_ms.is_some() && attempt.ended_at.is_some() && attempt.worker.is_some());
    }
}

#[test]
fn an_undecodable_payload_dies_at_once_and_the_next_job_runs() {
    #[derive(serde::Serialize)]
    struct Cursed {}
    impl Payload for Cursed {
        const KIND: &'static str = "cursed";
    }
    impl<'de> Deserialize<'de> for Cursed {
        fn deserialize<D: serde::Deserializer<'de>>(_: D) -> Result<Cursed, D::Error> {
            panic!("in Deserialize")
        }
    }
    let (_test, queue) = TestDatabase::with_orders();
    let worker = worker(&queue)
        .handle(|_: &Job<Cursed>| Ok(()))
        .runs(|_: &Job<Order>| Ok(()));
    let raw = |kind: &str, payload: &str| put(&queue, NewJob::raw(kind, payload).unwrap());
    let wrong = raw("order", r#"{"number": "seven"}"#);
    let undecodable = [
        (wrong, "invalid type"),
        (raw("cursed", "{}"), "in Deserialize"),
    ];
    queue.enqueue(&Order { number: 1 }).unwrap();
    let counts = finish(&queue, worker).stats;
    assert_eq!((counts.dead, counts.done, counts.retried), (2, 1, 0));
    for (id, message) in undecodable {
        let letter = queue.letter(id);
        let died = (letter.cause, letter.attempts);
        assert_eq!(died, (DeathCause::Undecodable, 1), "{message}");
        has(&letter.error_message, message);
    }
    let letter = queue.letter(wrong);
    assert!(letter.error_class.ends_with("Order"));
    assert_eq!(content(&letter), Some(r#"{"number": "seven"}"#));
}
