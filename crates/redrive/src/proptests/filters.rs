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
        text().prop_map(|queue| Change::of(|filter| filter.queue(queue))),
        text().prop_map(|kind| Change::of(|filter| filter.kind(kind))),
        vec(text(), 0..3).prop_map(|classes| Change::of(|filter| filter.error_classes(classes))),
        text().prop_map(|part| Change::of(|filter| filter.message(part))),
        text().prop_map(|version| Change::of(|filter| filter.version(version))),
        text().prop_map(|source| Change::of(|filter| filter.source(source))),
        any::<i64>().prop_map(|id| Change::of(move |filter| filter.ids_from(JobId::new(id)))),
        any::<i64>().prop_map(|run| Change::of(move |filter| filter.run(RunId::new(run)))),
        any::<u32>().prop_map(|from| Change::of(move |filter| filter.generation_from(from))),
        any::<SystemTime>().prop_map(|moment| Change::of(move |filter| filter.died_from(moment))),
        any::<Duration>().prop_map(|age| Change::of(move |filter| filter.older_than(age))),
        Just(()).prop_map(|()| Change::of(|filter| {
            let causes = [DeathCause::Exhausted, DeathCause::Manual];
            filter.causes(causes).state(LetterState::Open)
        })),
        (text(), comparison, scalar).prop_map(|(path, how, value)| Change::of(move |filter| {
            filter.clone().payload(&path, how, value).unwrap_or(filter)
        })),
    ];
    vec(change, 0..6).prop_map(|changes| {
        let changes = changes.into_iter();
        changes.fold(LetterFilter::new(), |filter, change| (change.0)(filter))
    })
}

/// A call of the builder.
struct Change(Box<dyn FnOnce(LetterFilter) -> LetterFilter>);

impl Change {
    fn of(change: impl FnOnce(LetterFilter) -> LetterFilter + 'static) -> Change {
        Change(Box::new(change))
    }
}

impl std::fmt::Debug for Change {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Change")
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
