//! A captured failure as a line of JSON: what `dlq export` writes and `dlq capture --file` reads.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use redrive::{Captured, Letter};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;

/// Where letters come from that were not captured from elsewhere.
const OWN_SOURCE: &str = "redrive:letter";
/// What a line that names no kind of error is grouped by.
const UNNAMED_ERROR: &str = "captured";

/// The line. Of payload, text and base64 it has exactly one.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CaptureLine {
    source: String,
    position: String,
    queue: String,
    kind: String,
    /// JSON, kept to the byte as it stands in the line.
    #[serde(
        default,
        deserialize_with = "even_null",
        skip_serializing_if = "Option::is_none"
    )]
    payload: Option<Box<RawValue>>,
    /// Bytes that are text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    raw: Option<String>,
    /// Bytes that are not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    raw_base64: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    content_type: Option<String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    headers: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    error_class: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    error_message: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    error_detail: Option<String>,
}

impl CaptureLine {
    /// A letter as a line from which it can be captured again.
    pub(crate) fn of(letter: &Letter) -> CaptureLine {
        let mut line = CaptureLine {
            source: letter
                .source
                .clone()
                .unwrap_or_else(|| OWN_SOURCE.to_owned()),
            position: letter
                .position
                .clone()
                .unwrap_or_else(|| letter.id.to_string()),
            queue: letter.queue.clone(),
            kind: letter.kind.clone(),
            content_type: letter.content_type.clone(),
            headers: letter
                .headers
                .as_deref()
                .map(headers_of)
                .unwrap_or_default(),
            error_class: Some(letter.error_class.clone()),
            error_message: Some(letter.error_message.clone()),
            error_detail: letter.error_detail.clone(),
            ..CaptureLine::default()
        };
        match (&letter.raw, &letter.payload) {
            (Some(raw), _) => match std::str::from_utf8(raw) {
                Ok(text) => line.raw = Some(text.to_owned()),
                Err(_) => line.raw_base64 = Some(STANDARD.encode(raw)),
            },
            (None, payload) => line.payload.clone_from(payload),
        }
        line
    }

    /// Reads a line, or tells what is wrong with it.
    pub(crate) fn read(text: &str) -> Result<Captured, String> {
        let line: CaptureLine = serde_json::from_str(text).map_err(|error| error.to_string())?;
        let bytes = match (line.payload, line.raw, line.raw_base64) {
            (Some(payload), None, None) => payload.get().as_bytes().to_vec(),
            (None, Some(text), None) => text.into_bytes(),
            (None, None, Some(encoded)) => STANDARD
                .decode(encoded)
                .map_err(|error| format!("raw_base64 is not base64: {error}"))?,
            _ => return Err("it needs one of payload, raw and raw_base64".to_owned()),
        };
        let mut captured = Captured::new(line.source, line.position, line.queue, line.kind, bytes)
            .error(
                line.error_class.unwrap_or_else(|| UNNAMED_ERROR.to_owned()),
                line.error_message.unwrap_or_default(),
            );
        if let Some(content_type) = line.content_type {
            captured = captured.content_type(content_type);
        }
        for (name, value) in line.headers {
            captured = captured.header(name, value);
        }
        if let Some(detail) = line.error_detail {
            captured = captured.detail(detail);
        }
        captured
            .check()
            .map_err(|error| crate::error::Error::from(error).told())?;
        Ok(captured)
    }
}

/// A payload that is there, also when it is `null`.
fn even_null<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Box<RawValue>>, D::Error> {
    Box::<RawValue>::deserialize(deserializer).map(Some)
}

/// Headers as text by text; what is no text is written as JSON.
fn headers_of(headers: &RawValue) -> BTreeMap<String, String> {
    let by_name: BTreeMap<String, Box<RawValue>> =
        serde_json::from_str(headers.get()).unwrap_or_default();
    let text = |value: &RawValue| {
        serde_json::from_str::<String>(value.get()).unwrap_or_else(|_| value.get().to_owned())
    };
    by_name
        .iter()
        .map(|(name, value)| (name.clone(), text(value)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_needs_its_bytes_once_and_nothing_that_is_unknown() {
        let line =
            |more: &str| format!(r#"{{"source":"s","position":"p","queue":"q","kind":"k"{more}}}"#);
        for good in [
            r#","payload":{"a":1}"#,
            r#","payload":null"#,
            r#","raw":"\u0000\ud83d\ude00","headers":{"a":"b"}"#,
            r#","raw_base64":"/w==","error_class":"E","error_message":"m","error_detail":"d""#,
        ] {
            let read = CaptureLine::read(&line(good));
            assert!(read.is_ok(), "{good}: {read:?}");
        }
        for (bad, why) in [
            ("", "one of"),
            (r#","payload":1,"raw":"x""#, "one of"),
            (r#","raw_base64":"?""#, "base64"),
            (r#","payload":1,"colour":"red""#, "unknown field"),
            (r#","payload":{"#, "EOF"),
            (r#","payload":1,"headers":{"a":1}"#, "string"),
        ] {
            let told = CaptureLine::read(&line(bad)).expect_err(bad);
            assert!(told.contains(why), "{bad}: {told}");
        }
        let told =
            CaptureLine::read(r#"{"source":"s","position":"p","queue":"","kind":"k","raw":""}"#);
        assert!(told.is_err_and(|why| why.contains("queue")));
    }
}
