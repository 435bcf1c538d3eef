//! Payloads of other versions of their type, and payloads that do not match it.

use redrive::Undecodable;
use redrive_tests::prelude::*;

#[derive(Serialize, Deserialize)]
struct OldPrice {
    euros: i64,
}

impl Payload for OldPrice {
    const KIND: &'static str = "price";
}

#[derive(Serialize, Deserialize)]
struct Price {
    cents: i64,
}

impl Payload for Price {
    const KIND: &'static str = "price";
    const VERSION: u32 = 2;

    fn upgrade(from: u32, old: Value) -> Result<Value, Failure> {
        assert_eq!(from, 1);
        let euros = old["euros"].as_i64();
        let euros = euros.ok_or_else(|| Failure::retry("no euros"))?;
        Ok(json!({ "cents": 100 * euros }))
    }
}

fn is_700(job: &Job<Price>) -> Result<(), Failure> {
    match job.payload().cents {
        700 => Ok(()),
        cents => Err(Failure::reject(format!("{cents} cents"))),
    }
}

/// Retries rarely, so that a job in this state stays there.
fn rarely(queue: &Queue) -> WorkerBuilder {
    worker(queue).backoff(Backoff::fixed(HOUR))
}

#[test]
fn a_handler_reads_older_versions() {
    let (_test, queue) = TestDatabase::with_orders();
    queue.enqueue(&OldPrice { euros: 7 }).unwrap();
    queue.enqueue(&Price { cents: 700 }).unwrap();
    let cannot_upgrade = NewJob::raw("price", "{}").unwrap().max_attempts(9);
    let id = put(&queue, cannot_upgrade);
    let stats = finish(&queue, rarely(&queue).runs(is_700)).stats;
    assert_eq!((stats.done, stats.dead), (2, 1));
    let letter = queue.letter(id);
    assert_eq!(letter.cause, DeathCause::Undecodable);
    assert_eq!(letter.error_message, "no euros");
}

#[test]
fn a_job_of_a_newer_version_waits_for_a_newer_program() {
    let (test, queue) = TestDatabase::with_orders();
    let waiting = NewJob::new(&Price { cents: 700 }).unwrap();
    queue.enqueue_job(waiting.clone()).unwrap();
    let dying = put(&queue, waiting.max_attempts(1));
    let old = rarely(&queue).handle(|_: &Job<OldPrice>| Ok(()));
    let dies = HandlerOptions::new().undecodable(Undecodable::Die);
    let old = old.options(dies).started();
    counted(&old, "both to be left", |counts| {
        (counts.retried, counts.dead) == (1, 1)
    });
    stop(old);
    let letter = queue.letter(dying);
    assert_eq!(letter.cause, DeathCause::Undecodable);
    let why = "the payload has version 2, and this program reads up to 1";
    assert_eq!(letter.error_message, why);

    queue.redrives(&LetterFilter::new());
    test.all_due();
    assert_eq!(finish(&queue, rarely(&queue).runs(is_700)).stats.done, 2);
}

#[test]
fn a_setting_decides_about_a_payload_of_another_type() {
    for (undecodable, is_deploying, is_retried) in [
        (Undecodable::Retry, false, true),
        (Undecodable::Die, true, false),
        (Undecodable::default(), false, false),
        (Undecodable::default(), true, true),
    ] {
        let (_test, queue) = TestDatabase::with_orders();
        let other = worker(&queue).version(if is_deploying { "2" } else { "1" });
        let other = other.runs(|_: &Job<Hold>| Ok(()));
        let worker = rarely(&queue).version("1");
        let worker = worker.handle(|_: &Job<OldPrice>| Ok(()));
        let options = HandlerOptions::new().undecodable(undecodable);
        let worker = worker.options(options).started();
        put(&queue, NewJob::raw("price", r#"{"pounds": 1}"#).unwrap());
        counted(&worker, "the verdict", |it| it.retried + it.dead == 1);
        let stats = stop(worker).stats;
        assert_eq!(stats.retried == 1, is_retried, "{undecodable:?}");
        stop(other);
    }
}
