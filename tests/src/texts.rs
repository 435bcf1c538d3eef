//! What a text must say, and what it must not.

use std::fmt::Display;

use postgres::Error;
use serde_json::Value;

/// Fails unless the text contains the part.
#[track_caller]
pub fn has(text: impl Display, part: impl AsRef<str>) {
    let (text, part) = (text.to_string(), part.as_ref());
    assert!(text.contains(part), "`{part}` is not in: {text}");
}

/// Fails if the text contains the part.
#[track_caller]
pub fn lacks(text: impl Display, part: impl AsRef<str>) {
    let (text, part) = (text.to_string(), part.as_ref());
    assert!(!text.contains(part), "`{part}` is in: {text:?}");
}

/// Returns the message with which the server refused a statement.
#[track_caller]
pub fn refusal(error: &Error) -> &str {
    let said = error.as_db_error();
    said.unwrap_or_else(|| panic!("no answer of the server: {error:?}"))
        .message()
}

/// Fails unless the object has each member of the other one, with the same value.
#[track_caller]
pub fn holds(object: &Value, members: &Value) {
    for (name, value) in members.as_object().expect("an object") {
        assert_eq!(&object[name], value, "{name} of {object}");
    }
}
