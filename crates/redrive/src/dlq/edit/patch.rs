//! An edit as a pure function of a payload.

use std::fmt;
use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::dlq::json_number;
use crate::dlq::prelude::*;

/// An edit of payloads.
///
/// ```
/// use redrive::dlq::Edit;
///
/// # fn main() -> redrive::Result<()> {
/// // RFC 6902: if a test fails, the letter stays unchanged.
/// let patch = Edit::patch(r#"[
///     {"op": "test", "path": "/currency", "value": "EURO"},
///     {"op": "replace", "path": "/currency", "value": "EUR"}
/// ]"#)?;
/// // RFC 7386: sets these members, and removes those that are null.
/// let merge = Edit::merge(r#"{"currency": "EUR", "legacy": null}"#)?;
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Edit {
    /// The kind of edit, for the audit log.
    pub(super) word: &'static str,
    change: Arc<Change>,
}

/// A function from a payload to the new one; `None`: captured bytes that are not JSON, or a payload that stays.
type Change = dyn Fn(Option<&str>) -> Result<Option<Json>, String> + Send + Sync;

/// Shows no payload.
impl fmt::Debug for Edit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Edit({})", self.word)
    }
}

impl Edit {
    /// Applies a JSON Patch (RFC 6902). If one operation fails, the payload stays
    /// unchanged.
    ///
    /// # Errors
    /// *Invalid* if the text is not a JSON Patch.
    pub fn patch(json: &str) -> Result<Edit> {
        let patch: json_patch::Patch = exact(json, "the text is not a JSON Patch")?;
        // It runs on a copy, so nothing needs rolling back. The checked variant panics when a document moves into itself.
        Ok(Edit::values("patch", move |payload| {
            json_patch::patch_unsafe(payload, &patch).map_err(|error| error.to_string())
        }))
    }

    /// Applies a JSON merge patch (RFC 7386): sets members, and removes those that are
    /// null.
    ///
    /// # Errors
    /// *Invalid* if the text is not JSON.
    pub fn merge(json: &str) -> Result<Edit> {
        let patch: Value = exact(json, "the merge patch is not JSON")?;
        Ok(Edit::values("merge", move |payload| {
            json_patch::merge(payload, &patch);
            Ok(())
        }))
    }

    /// Replaces the payload. Also works for captured bytes that are not JSON.
    ///
    /// # Errors
    /// *Invalid* if the text cannot be a payload.
    pub fn set(json: &str) -> Result<Edit> {
        let json = Json::parse(json)?;
        Ok(Edit::with("set", move |_| Ok(Some(json.clone()))))
    }

    /// Replaces each payload by the result of a function of its JSON text.
    ///
    /// A letter for which the function returns an error stays unchanged and is reported with the error. The
    /// function runs in previews too, and again if another operator edits the letter at the same time, so
    /// it must not have side effects.
    ///
    /// ```
    /// use redrive::dlq::Edit;
    /// # #[derive(serde::Serialize, serde::Deserialize)]
    /// # struct Order { currency: String }
    ///
    /// // A faulty client appended a blank to currencies.
    /// let trim = Edit::transform(|payload| -> serde_json::Result<String> {
    ///     let mut order: Order = serde_json::from_str(payload)?;
    ///     order.currency.truncate(order.currency.trim_end().len());
    ///     serde_json::to_string(&order)
    /// });
    /// # let _ = trim;
    /// ```
    pub fn transform<E: fmt::Display>(
        change: impl Fn(&str) -> Result<String, E> + Send + Sync + 'static,
    ) -> Edit {
        Edit::with("transform", move |payload| {
            let edited = change(payload.ok_or(NOT_JSON)?).map_err(|error| error.to_string())?;
            let edited = Json::parse(edited.trim());
            edited.map(Some).map_err(|error| error.to_string())
        })
    }

    fn with(
        word: &'static str,
        change: impl Fn(Option<&str>) -> Result<Option<Json>, String> + Send + Sync + 'static,
    ) -> Edit {
        let change = Arc::new(change);
        Edit { word, change }
    }

    /// Returns an edit that changes the value of a payload in place. A payload that stays the same may be one that no edit
    /// could store.
    fn values(
        word: &'static str,
        change: impl Fn(&mut Value) -> Result<(), String> + Send + Sync + 'static,
    ) -> Edit {
        Edit::with(word, move |payload| {
            let before = value(payload.ok_or(NOT_JSON)?)?;
            let mut edited = before.clone();
            change(&mut edited)?;
            if edited == before {
                return Ok(None);
            }
            let edited = Json::of("the payload", &edited);
            edited.map(Some).map_err(|error| error.to_string())
        })
    }

    /// Returns the new payload, or the reason why the edit does not apply; `None`: the payload stays the same.
    pub(crate) fn make(&self, payload: Option<&str>) -> Result<Option<Json>, String> {
        let edited = (self.change)(payload)?;
        // What cannot be compared counts as changed; an extra version is harmless.
        let is_new = |edited: &Json| {
            let after = value(edited.as_str());
            after.is_err() || payload.is_none_or(|payload| value(payload) != after)
        };
        Ok(edited.filter(is_new))
    }
}

/// Why most edits do not apply to captured bytes.
const NOT_JSON: &str = "its captured bytes are not JSON; set a whole payload";

/// Parses JSON, and rejects numbers that a double would round.
fn exact<T: DeserializeOwned>(json: &str, wrong: &str) -> Result<T> {
    if let Some(number) = json_number::rounded(json) {
        return Err(Error::invalid(format!(
            "the number {number:.40} has more digits than an edit can keep"
        )));
    }
    serde_json::from_str(json).map_err(|error| Error::invalid(wrong).caused_by(error))
}

/// Returns the value of a payload.
fn value(payload: &str) -> Result<Value, String> {
    let value = exact(payload, "the payload is not JSON");
    value.map_err(|error| format!("{error}; set a whole payload"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(edit: Result<Edit>, payload: Option<&str>) -> Result<String, String> {
        let made = edit.expect("an edit").make(payload)?;
        Ok(made.as_ref().map_or("same", Json::as_str).to_owned())
    }

    #[test]
    fn an_edit_holds_as_a_whole_or_changes_nothing() {
        let patch = || {
            Edit::patch(
                r#"[{"op":"replace","path":"/a","value":2},{"op":"test","path":"/b","value":1}]"#,
            )
        };
        let merge = || Edit::merge(r#"{"a":{"b":null,"c":3}}"#);
        let count = || {
            let add = |payload: &str| -> Result<String, std::num::ParseIntError> {
                Ok(format!(" {}\n", payload.parse::<u64>()? + 1))
            };
            Ok(Edit::transform(add))
        };
        let broken = Ok(Edit::transform(|_| Ok::<_, String>("{".to_owned())));
        // A number is never rounded by the way.
        let long = r#"{"a":12345678901234567890123,"b":1}"#;
        // No job has it, but a captured failure.
        let large = format!(r#"{{"a":{{"c":3}},"d":"{}"}}"#, "x".repeat(1 << 20));
        for (edit, payload, expected) in [
            (patch(), Some(r#"{"a":1,"b":1}"#), Some(r#"{"a":2,"b":1}"#)),
            (patch(), Some(r#"{"a":2,"b":1}"#), Some("same")),
            (patch(), Some(r#"{"a":1,"b":2}"#), None),
            (patch(), Some(r#"{"b":1}"#), None),
            (patch(), None, None),
            (
                merge(),
                Some(r#"{"a":{"b":1},"d":[]}"#),
                Some(r#"{"a":{"c":3},"d":[]}"#),
            ),
            (merge(), Some(r#"{"a":{"c":3}}"#), Some("same")),
            (merge(), Some(r#"{"a":{"c":3},"d":"\u0000"}"#), Some("same")),
            (merge(), Some(r#"{"d":"\u0000"}"#), None),
            (merge(), Some(large.as_str()), Some("same")),
            (merge(), Some(long), None),
            (Edit::set("1.0"), Some("1.0"), Some("same")),
            (Edit::set("[1]"), None, Some("[1]")),
            (Edit::set(long), Some(long), Some(long)),
            (count(), Some("41"), Some("42")),
            (count(), Some("true"), None),
            (count(), None, None),
            (broken, Some("1"), None),
        ] {
            assert_eq!(made(edit, payload).ok().as_deref(), expected, "{payload:?}");
        }
        assert!(Edit::merge(r#"{"b":12345678901234567890123}"#).is_err());
    }
}
