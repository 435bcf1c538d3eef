//! Arbitrary input on a real server: everything that the library accepts is stored, returned
//! unchanged and counted.
//!
//! The generators are those of the property tests; `PROPTEST_RNG_SEED` sets the seed.

#[path = "../../../crates/redrive/src/proptests/texts.rs"]
mod texts;

use proptest::strategy::{Strategy, ValueTree as _};
use proptest::test_runner::TestRunner;
use redrive::limits::MAX_PAYLOAD_BYTES;
use redrive_tests::prelude::*;

/// The number of inputs per kind.
const INPUTS: usize = 400;

/// Returns inputs of one kind.
fn inputs<T: std::fmt::Debug>(of: impl Strategy<Value = T>, how_many: usize) -> Vec<T> {
    let mut runner = TestRunner::new(texts::config());
    let one = || of.new_tree(&mut runner).expect("an input").current();
    std::iter::repeat_with(one).take(how_many).collect()
}

/// Whether the server accepts a text as `jsonb`.
fn is_jsonb(client: &mut Client, text: &str) -> bool {
    let asked = client.query_one("SELECT $1::text::jsonb IS NOT NULL", &[&text]);
    asked.is_ok()
}

#[test]
fn the_library_accepts_the_payloads_that_the_server_takes_as_jsonb() {
    let (_test, queue, mut client) = TestDatabase::with_session();
    let json = proptest::prop_oneof![
        8 => texts::json(),
        1 => "-?[1-9][0-9]{0,9}[eE][+-]?[0-9]{1,4}",
        1 => texts::text(),
    ];
    let (mut jobs, mut payloads) = (Vec::new(), Vec::new());
    for text in inputs(json, 2 * INPUTS) {
        let (job, is_jsonb) = (NewJob::raw("k", &text), is_jsonb(&mut client, &text));
        let is_right = is_jsonb == job.is_ok() || text.len() > MAX_PAYLOAD_BYTES;
        assert!(is_right, "{job:?}: {text}");
        if let Ok(job) = job {
            jobs.push(job);
            payloads.push(text);
        }
    }
    assert!(jobs.len() >= INPUTS, "{} are payloads", jobs.len());
    queue.enqueue_jobs(&jobs).unwrap();
    let stored = "SELECT payload::text FROM redrive.jobs ORDER BY id";
    assert_eq!(client.column::<String>(stored, &[]), payloads);
}

#[test]
fn every_accepted_capture_becomes_a_letter_with_the_same_bytes() {
    let (_test, db, mut client) = TestDatabase::with_handle();
    let bytes = proptest::collection::vec(proptest::num::u8::ANY, 0..60);
    let text = texts::text;
    let kinds = (bytes, texts::json(), text(), text(), text(), text(), text());
    let mut taken: Vec<(JobId, Vec<u8>)> = Vec::new();
    for (number, input) in inputs(kinds, INPUTS).into_iter().enumerate() {
        let (bytes, json, class, message, detail, name, value) = input;
        let raw = if number % 2 == 0 {
            bytes
        } else {
            json.into_bytes()
        };
        let foreign = ForeignFailure::new("s", number.to_string(), "q", "k", raw.clone());
        let foreign = foreign.error(class, message).detail(detail);
        let foreign = foreign.header(name, value);
        match (foreign.check(), db.dlq().capture(&foreign)) {
            (Ok(()), Ok(captured)) => taken.push((captured.id(), raw)),
            (Ok(()), Err(error)) => panic!("checked, and refused by the server: {error:?}"),
            (Err(_), Err(error)) => assert!(error.is_invalid(), "{error:?}"),
            (Err(error), Ok(_)) => panic!("taken in spite of {error}"),
        }
    }
    assert!(taken.len() > INPUTS / 2, "{} were taken", taken.len());
    assert_eq!(letters_in(&db, "q", LetterState::Open), taken.len());
    for (id, raw) in &taken {
        let letter = db.letter(*id);
        assert_eq!(letter.raw.as_deref(), Some(&**raw), "letter {id}");
    }
    // Each letter has a group, for every message.
    assert_eq!(client.count("dead_letters WHERE group_id IS NULL"), 0);
}

#[test]
fn the_database_accepts_every_arbitrary_filter_that_parses() {
    let (test, db) = TestDatabase::opened();
    letters(&test.queue("q"), 3);
    let mut asked = 0;
    for text in inputs(texts::conditions(), 3 * INPUTS) {
        let Ok(filter) = text.parse::<LetterFilter>() else {
            continue;
        };
        match db.dlq().list(&filter.limit(5)) {
            Ok(_) => asked += 1,
            Err(error) => assert!(error.is_invalid(), "{text}: {error:?}"),
        }
    }
    assert!(asked > INPUTS / 4, "{asked} filters were asked for");
}
