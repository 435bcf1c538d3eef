//! Finds the numbers in JSON text that `serde_json::Value` would round.
//!
//! `jsonb` stores numbers of any length, but an edit reads the payload as a `Value`. It must not
//! change the digits of numbers that it does not edit.

/// Returns the first number in a JSON text that a `Value` cannot hold exactly.
pub(crate) fn rounded(json: &str) -> Option<&str> {
    let bytes = json.as_bytes();
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        match byte {
            b'"' => at += string_length(&bytes[at..]),
            b'-' | b'0'..=b'9' => {
                let is_of_number = |byte: &u8| b"+-.eE0123456789".contains(byte);
                let length = bytes[at..]
                    .iter()
                    .take_while(|byte| is_of_number(byte))
                    .count();
                let number = &json[at..at + length];
                if !is_kept(number) {
                    return Some(number);
                }
                at += length;
            }
            _ => at += 1,
        }
    }
    None
}

/// Returns the length of the string at the start of a text, with its quotation marks.
fn string_length(text: &[u8]) -> usize {
    let mut at = 1;
    while let Some(&byte) = text.get(at) {
        match byte {
            b'"' => return at + 1,
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    text.len()
}

fn is_kept(number: &str) -> bool {
    if number.parse::<i64>().is_ok() || number.parse::<u64>().is_ok() {
        return true;
    }
    let Ok(value) = number.parse::<f64>() else {
        return false;
    };
    if number.contains(['e', 'E']) {
        let digits = number.split(['e', 'E']).next().unwrap_or_default();
        let digits = digits.bytes().filter(u8::is_ascii_digit);
        // Decimals of up to fifteen digits map to distinct doubles, unless they are too small or too large.
        return (value.is_normal() || digits.clone().all(|digit| digit == b'0'))
            && digits.count() <= 15;
    }
    // If the shortest decimal for this double differs from the number, the number was rounded.
    let shown = value.to_string();
    plain(&shown) == plain(number)
}

/// Returns a decimal without trailing zeros.
fn plain(number: &str) -> &str {
    match number.contains('.') {
        true => number.trim_end_matches('0').trim_end_matches('.'),
        false => number,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_a_value_holds_pass() {
        for json in [
            "[0, -7, 18446744073709551615, -9223372036854775808, 100000000000000000000]",
            "[0.1, 1.10, 5.000, -12.5, 3.141592653589793, 1e21, 1.5E-7, -0.0e7]",
            r#"{"a": "123456789012345678901234567890", "b\"": [1, 2.5, "\\"], "c": -0.25}"#,
            "-7",
        ] {
            assert_eq!(rounded(json), None, "{json}");
        }
    }

    #[test]
    fn numbers_that_would_be_rounded_are_found() {
        for number in [
            // Two to the power of 64, which a double holds and writes as 18446744073709552000.
            "18446744073709551616",
            "18446744073709551617",
            "0.12345678901234567890",
            "1e999",
            "1e-999",
            "1.2345678e-320",
            "1.23456789012345678e5",
        ] {
            assert_eq!(rounded(number), Some(number));
            let json = format!(r#"{{"a\"": [1, "\\", {number}]}}"#);
            assert_eq!(rounded(&json), Some(number), "{json}");
        }
    }
}
