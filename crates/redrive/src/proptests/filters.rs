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

/// Filters of one condition made with the builder, from any texts.
fn built() -> impl Strategy<Value = LetterFilter> {
    let scalar = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        text().prop_map(Value::from),
    ];
    let comparison = select(Comparison::ALL.to_vec());
    let new = LetterFilter::new;
    prop_oneof![
        text().prop_map(move |queue| new().queue(queue)),
        text().prop_map(move |kind| new().kind(kind)),
        vec(text(), 0..3).prop_map(move |classes| new().error_classes(classes)),
        text().prop_map(move |part| new().message(part)),
        text().prop_map(move |version| new().version(version)),
        text().prop_map(move |host| new().host(host)),
        text().prop_map(move |source| new().source(source)),
        any::<i64>().prop_map(move |id| new().ids_from(JobId::new(id))),
        any::<i64>().prop_map(move |run| new().run(RunId::new(run))),
        any::<u32>().prop_map(move |generation| new().generation_from(generation)),
        any::<SystemTime>().prop_map(move |moment| new().died_from(moment)),
        any::<Duration>().prop_map(move |age| new().older_than(age)),
        Just(new().causes([DeathCause::Exhausted, DeathCause::Manual])),
        Just(new().or_state(LetterState::Open)),
        (text(), comparison, scalar).prop_map(move |(path, how, value)| new()
            .payload(&path, how, value)
            .unwrap_or_default()),
    ]
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn any_text_is_rejected_or_a_filter_that_displays_as_text_that_parses_to_it(
        text in prop_oneof![1 => text(), 4 => conditions()],
    ) {
        match text.parse::<LetterFilter>() {
            Ok(filter) => {
                let written = filter.to_string();
                let again = written.parse::<LetterFilter>();
                prop_assert_eq!(again.as_ref().ok(), Some(&filter), "{} {:?}", written, again);
                let json = filter.parameter().expect("what is read can be asked for");
                prop_assert!(serde_json::from_str::<Value>(json.as_str()).is_ok());
            }
            Err(error) => {
                prop_assert!(error.is_invalid());
                prop_assert!(!error.to_string().contains(char::is_control), "{error}");
            }
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
