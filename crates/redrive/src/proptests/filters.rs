//! Filters as text and as JSON for the database.

use std::time::{Duration, SystemTime};

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::Value;

use super::{conditions, config, text};
use crate::dlq::filter::{Comparison, LetterFilter};
use crate::dlq::id::RunId;
use crate::dlq::state::LetterState;
use crate::job::death_cause::DeathCause;
use crate::job::job::JobId;

/// Filters made with the builder, from any texts.
fn built() -> impl Strategy<Value = LetterFilter> {
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
    vec(change, 0..6)
        .prop_map(|changes| changes.into_iter().fold(LetterFilter::new(), Change::make))
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
    fn make(filter: LetterFilter, change: Change) -> LetterFilter {
        match change {
            Change::Queue(queue) => filter.queue(queue),
            Change::Kind(kind) => filter.kind(kind),
            Change::Classes(classes) => filter.error_classes(classes),
            Change::Message(part) => filter.message(part),
            Change::Version(version) => filter.version(version),
            Change::Source(source) => filter.source(source),
            Change::FromId(id) => filter.ids_from(JobId::new(id)),
            Change::Run(run) => filter.run(RunId::new(run)),
            Change::Generation(generation) => filter.generation_from(generation),
            Change::DiedFrom(moment) => filter.died_from(moment),
            Change::OlderThan(age) => filter.older_than(age),
            Change::Words => filter
                .causes([DeathCause::Exhausted, DeathCause::Manual])
                .state(LetterState::Open),
            Change::Payload(path, how, value) => {
                filter.clone().payload(&path, how, value).unwrap_or(filter)
            }
        }
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn any_text_is_a_filter_or_rejected(text in text()) {
        if let Err(error) = text.parse::<LetterFilter>() {
            prop_assert!(error.is_invalid());
            prop_assert!(!error.to_string().contains(char::is_control), "{error}");
        }
    }

    #[test]
    fn a_parsed_filter_displays_as_text_that_parses_to_it(text in conditions()) {
        match text.parse::<LetterFilter>() {
            Ok(filter) => {
                let written = filter.to_string();
                let again = written.parse::<LetterFilter>();
                prop_assert_eq!(again.as_ref().ok(), Some(&filter), "{} {:?}", written, again);
                let json = filter.parameter().expect("what is read can be asked for");
                prop_assert!(serde_json::from_str::<Value>(json.as_str()).is_ok());
            }
            Err(error) => prop_assert!(error.is_invalid() && !error.to_string().contains('\0')),
        }
    }

    #[test]
    fn a_built_filter_is_valid_or_rejected(filter in built()) {
        match filter.parameter() {
            // A filter that matches nothing, such as a queue without a name, may not parse again.
            Ok(_) => if let Ok(again) = filter.to_string().parse::<LetterFilter>() {
                prop_assert_eq!(again, filter);
            },
            Err(error) => prop_assert!(error.is_invalid()),
        }
    }
}
