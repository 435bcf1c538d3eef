//! Filters: as text, and as the database takes them.

use std::time::{Duration, SystemTime};

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::Value;

use super::{conditions, config, text};
use crate::filter::{Comparison, Letters};
use crate::job::JobId;
use crate::letter::LetterState;
use crate::reason::Reason;

/// What the builder is told, in any words.
fn built() -> impl Strategy<Value = Letters> {
    let scalar = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        text().prop_map(Value::from),
    ];
    let comparison = select(
        &[
            Comparison::Equal,
            Comparison::NotEqual,
            Comparison::Less,
            Comparison::AtMost,
            Comparison::Greater,
            Comparison::AtLeast,
            Comparison::Contains,
        ][..],
    );
    let change = prop_oneof![
        text().prop_map(Change::Queue),
        text().prop_map(Change::Kind),
        vec(text(), 0..3).prop_map(Change::Classes),
        text().prop_map(Change::Message),
        text().prop_map(Change::Version),
        text().prop_map(Change::Source),
        any::<i64>().prop_map(Change::FromId),
        any::<i64>().prop_map(Change::Run),
        any::<u32>().prop_map(Change::Generation),
        any::<SystemTime>().prop_map(Change::DiedFrom),
        any::<Duration>().prop_map(Change::OlderThan),
        Just(Change::Words),
        (text(), comparison, scalar)
            .prop_map(|(path, how, value)| Change::Payload(path, how, value)),
    ];
    vec(change, 0..6).prop_map(|changes| changes.into_iter().fold(Letters::all(), Change::make))
}

#[derive(Clone, Debug)]
enum Change {
    Queue(String),
    Kind(String),
    Classes(Vec<String>),
    Message(String),
    Version(String),
    Source(String),
    FromId(i64),
    Run(i64),
    Generation(u32),
    DiedFrom(SystemTime),
    OlderThan(Duration),
    Words,
    Payload(String, Comparison, Value),
}

impl Change {
    fn make(which: Letters, change: Change) -> Letters {
        match change {
            Change::Queue(queue) => which.of_queue(queue),
            Change::Kind(kind) => which.kind(kind),
            Change::Classes(classes) => which.error_classes(classes),
            Change::Message(part) => which.message(part),
            Change::Version(version) => which.version(version),
            Change::Source(source) => which.source(source),
            Change::FromId(id) => which.from_id(JobId::new(id)),
            Change::Run(run) => which.run(run),
            Change::Generation(generation) => which.generation_from(generation),
            Change::DiedFrom(moment) => which.died_from(moment),
            Change::OlderThan(age) => which.older_than(age),
            Change::Words => which
                .reasons([Reason::Exhausted, Reason::Manual])
                .state(LetterState::Open),
            Change::Payload(path, how, value) => {
                which.clone().payload(&path, how, value).unwrap_or(which)
            }
        }
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn any_text_is_a_filter_or_refused(text in text()) {
        if let Err(error) = text.parse::<Letters>() {
            prop_assert!(error.is_invalid());
            prop_assert!(!error.to_string().contains(char::is_control), "{error}");
        }
    }

    #[test]
    fn a_filter_that_is_read_is_written_as_it_is_read(text in conditions()) {
        match text.parse::<Letters>() {
            Ok(which) => {
                let written = which.to_string();
                let again = written.parse::<Letters>();
                prop_assert_eq!(again.as_ref().ok(), Some(&which), "{} {:?}", written, again);
                let json = which.filter().expect("what is read can be asked for");
                prop_assert!(serde_json::from_str::<Value>(json.as_str()).is_ok());
            }
            Err(error) => prop_assert!(error.is_invalid() && !error.to_string().contains('\0')),
        }
    }

    #[test]
    fn a_filter_that_is_built_can_be_asked_for_or_is_refused(which in built()) {
        match which.filter() {
            // What is asked for in vain, such as a queue without a name, is read as nothing else.
            Ok(_) => if let Ok(again) = which.to_string().parse::<Letters>() {
                prop_assert_eq!(again, which);
            },
            Err(error) => prop_assert!(error.is_invalid()),
        }
    }
}
