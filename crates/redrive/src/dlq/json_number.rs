//! Finds the numbers in JSON text that `serde_json::Value` would round.
//!
//! `jsonb` stores numbers of any length, but an edit reads the payload as a `Value`. It must not
//! change the digits of numbers that it does not edit.

use serde_json::Value;

use crate::job::payload::scalars;

/// Returns the first number in a JSON text that a `Value` cannot hold exactly.
pub(crate) fn rounded(json: &str) -> Option<&str> {
    let mut numbers = scalars(json).filter(|scalar| !scalar.starts_with('"'));
    numbers.find(|number| !is_kept(number))
}

/// Returns whether a `Value` has the digits of the number.
fn is_kept(number: &str) -> bool {
    let value = serde_json::from_str::<Value>(number);
    value.is_ok_and(|value| digits(&value.to_string()) == digits(number))
}

/// Returns the digits without exponent, and without zeros at the ends.
fn digits(number: &str) -> String {
    let decimal = number.split(['e', 'E']).next().unwrap_or_default();
    let digits: String = decimal.chars().filter(char::is_ascii_digit).collect();
    digits.trim_matches('0').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_would_be_rounded_are_found() {
        for json in [
            "[0, -7, 18446744073709551615, -9223372036854775808, 100000000000000000000]",
            "[0.1, 1.10, 5.000, -12.5, 3.141592653589793, 1e21, 1.5E-7, -0.0e7]",
            r#"{"a": "123456789012345678901234567890", "b\"": [1, 2.5, "\\"], "c": -0.25}"#,
        ] {
            assert_eq!(rounded(json), None, "{json}");
        }
        for number in [
            // Two to the power of 64, which a double holds and writes as 18446744073709552000.
            "18446744073709551616",
            "0.12345678901234567890",
            "1e999",
            "1e-999",
            "1.2345678e-320",
            "1.23456789012345678e5",
        ] {
            let json = format!(r#"{{"a\"": [1, "\\", {number}]}}"#);
            assert_eq!(rounded(&json), Some(number), "{json}");
        }
    }
}
