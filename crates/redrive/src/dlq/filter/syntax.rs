//! The syntax that the filters of letters and of jobs share: conditions separated by blanks, each a
//! field, an operator and a value.

use crate::dlq::filter::payload::Comparison;

/// Splits off the first condition, up to a blank outside quotes.
pub(super) fn next_condition(text: &str) -> (&str, &str) {
    let end = find_outside_quotes(text, char::is_whitespace);
    text.split_at(end.unwrap_or(text.len()))
}

/// Splits a condition at its first operator outside quotes.
pub(super) fn parts(condition: &str) -> Option<(&str, Comparison, &str)> {
    let at = find_outside_quotes(condition, |c| "!=<>~".contains(c))?;
    let (key, rest) = condition.split_at(at);
    // Those of two characters come first.
    let comparison =
        (Comparison::ALL.into_iter()).find(|known| rest.starts_with(known.as_str()))?;
    Some((key, comparison, &rest[comparison.as_str().len()..]))
}

fn find_outside_quotes(text: &str, is_wanted: impl Fn(char) -> bool) -> Option<usize> {
    let (mut is_quoted, mut is_escaped) = (false, false);
    text.find(|c| {
        let is_found = !is_quoted && is_wanted(c);
        is_quoted ^= c == '"' && !is_escaped;
        is_escaped = is_quoted && c == '\\' && !is_escaped;
        is_found
    })
}
