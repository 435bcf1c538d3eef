//! The numbers in payloads.

use proptest::prelude::*;
use serde_json::Value;

use super::{config, number};
use crate::dlq::json_number::rounded;

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
    fn a_number_that_is_kept_is_the_same_number(number in number()) {
        if rounded(&number).is_none() {
            let value: Value = serde_json::from_str(&number).expect("a number");
            prop_assert_eq!(decimal(&value.to_string()), decimal(&number), "{}", value);
        }
    }
}
