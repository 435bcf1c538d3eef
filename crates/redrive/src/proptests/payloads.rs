//! Payloads, and the numbers in them.

use proptest::prelude::*;
use serde_json::Value;

use super::{config, json, number, text};
use crate::dlq::capture::ForeignFailure;
use crate::dlq::json_number::rounded;
use crate::job::payload::Json;

/// Whether a string in the value contains NUL.
fn has_nul(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
        Value::String(text) => text.contains('\0'),
        Value::Array(all) => all.iter().any(has_nul),
        Value::Object(members) => members
            .iter()
            .any(|(name, value)| name.contains('\0') || has_nul(value)),
    }
}

/// A decimal number in a normal form: sign, significant digits, exponent.
fn decimal(number: &str) -> (bool, String, i64) {
    let (mantissa, exponent) = number.split_once(['e', 'E']).unwrap_or((number, "0"));
    let exponent: i64 = exponent.parse().expect("an exponent");
    let unsigned = mantissa.trim_start_matches('-');
    let (whole, fraction) = unsigned.split_once('.').unwrap_or((unsigned, ""));
    let digits = format!("{whole}{fraction}");
    let point = exponent - i64::try_from(fraction.len()).expect("few digits");
    let significant = digits.trim_start_matches('0').trim_end_matches('0');
    if significant.is_empty() {
        return (false, String::new(), 0);
    }
    let zeros = digits.len() - digits.trim_end_matches('0').len();
    (
        mantissa.starts_with('-'),
        significant.to_owned(),
        point + i64::try_from(zeros).expect("few digits"),
    )
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn a_payload_is_accepted_if_the_database_can_store_it(json in json()) {
        // serde_json also rejects half of a surrogate pair.
        let can_be_held = serde_json::from_str::<Value>(&json).is_ok_and(|value| !has_nul(&value));
        let taken = Json::parse(&json);
        prop_assert_eq!(taken.is_ok(), can_be_held, "{:?}", taken);
        if let Ok(taken) = taken {
            prop_assert_eq!(taken.as_str(), &json);
            let raw = taken.raw_value().expect("it was JSON before");
            prop_assert_eq!(raw.get(), json.trim());
        }
    }

    #[test]
    fn a_number_that_is_kept_is_the_same_number(number in number()) {
        if rounded(&number).is_none() {
            let value: Value = serde_json::from_str(&number).expect("a number");
            prop_assert_eq!(decimal(&value.to_string()), decimal(&number), "{}", value);
        }
    }

    #[test]
    fn numbers_are_found_in_any_text(text in text(), json in json()) {
        // A number that is found is a part of the text.
        for text in [&text, &json] {
            if let Some(number) = rounded(text) {
                prop_assert!(text.contains(number) && !number.is_empty());
            }
        }
    }

    #[test]
    fn any_foreign_failure_is_accepted_or_rejected(
        texts in proptest::array::uniform8(text()),
        raw in proptest::collection::vec(any::<u8>(), 0..200),
    ) {
        let [source, position, queue, kind, class, message, name, value] = texts;
        let captured = ForeignFailure::new(source, position, queue, kind, raw)
            .error(class, message)
            .header(name, value);
        if let Err(error) = captured.check() {
            prop_assert!(error.is_invalid());
            prop_assert!(!error.to_string().contains('\0'));
        }
    }
}
