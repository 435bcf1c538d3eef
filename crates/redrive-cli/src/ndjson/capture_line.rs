//! A captured failure as one line of JSON, written by `dlq export` and read by
//! `dlq capture --file`.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use redrive::JobId;
use redrive::dlq::{ForeignFailure, Letter, LetterPast};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;

use crate::error::{Error, Result};
use crate::optional::Optional as _;

/// The source of letters that were not captured.
const OWN_SOURCE: &str = "redrive:letter";
/// The longest text of a line. JSON may write a byte as six, and `dlq capture` refuses a line that exceeds the largest capture
/// in base64.
const MAX_TEXT_BYTES: usize = 16 * 1024 * 1024;
/// The error class of a line without one.
const DEFAULT_ERROR_CLASS: &str = "captured";

/// A captured failure. It has exactly one of `payload`, `raw` and `raw_base64`.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CaptureLine {
    pub(crate) source: String,
    pub(crate) position: String,
    pub(crate) queue: String,
    pub(crate) kind: String,
    /// JSON, byte for byte as in the line.
    #[serde(
        default,
        deserialize_with = "present",
        skip_serializing_if = "Option::is_none"
    )]
    pub(crate) payload: Option<Box<RawValue>>,
    /// Bytes that are UTF-8, if they are not too many.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) raw: Option<String>,
    /// Any other bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) raw_base64: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) content_type: Option<String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) headers: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) error_class: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) error_message: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) error_detail: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) group_key: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) failure_key: Option<String>,
    /// The past of an exported letter: its history, generation and counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) letter: Option<LetterPast>,
}

impl CaptureLine {
    /// A letter as a line from which it can be captured. `all` reads the captured bytes of a letter that has only their
    /// start.
    pub(crate) fn of(
        letter: &Letter,
        all: impl FnOnce(JobId) -> redrive::Result<Option<Vec<u8>>>,
    ) -> Result<CaptureLine> {
        let all = match letter.raw_size {
            Some(_) => match all(letter.id)? {
                Some(bytes) => Some(bytes),
                None => {
                    let id = letter.id;
                    let moved =
                        format!("letter {id} changed while it was read; repeat the command");
                    return Err(Error::new(moved));
                }
            },
            None => None,
        };
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
            group_key: letter.group_key.clone(),
            letter: Some(LetterPast::of(letter)),
            ..CaptureLine::default()
        };
        match (all.as_ref().or(letter.raw.as_ref()), &letter.payload) {
            (Some(raw), _) => match std::str::from_utf8(raw) {
                Ok(text) if text.len() <= MAX_TEXT_BYTES => line.raw = Some(text.to_owned()),
                Ok(_) | Err(_) => line.raw_base64 = Some(STANDARD.encode(raw)),
            },
            // A line cannot have its line breaks.
            (None, Some(payload)) if payload.get().contains(['\n', '\r']) => {
                line.raw = Some(payload.get().to_owned());
            }
            (None, payload) => line.payload.clone_from(payload),
        }
        Ok(line)
    }

    /// Parses a line.
    pub(crate) fn read(text: &str) -> Result<ForeignFailure, String> {
        let line: CaptureLine = serde_json::from_str(text).map_err(|error| error.to_string())?;
        let bytes = match (line.payload, line.raw, line.raw_base64) {
            (Some(payload), None, None) => payload.get().as_bytes().to_vec(),
            (None, Some(text), None) => text.into_bytes(),
            (None, None, Some(encoded)) => STANDARD
                .decode(encoded)
                .map_err(|error| format!("raw_base64 is not valid: {error}"))?,
            _ => return Err("expected exactly one of payload, raw and raw_base64".to_owned()),
        };
        let class = line.error_class;
        let class = class.unwrap_or_else(|| DEFAULT_ERROR_CLASS.to_owned());
        let captured =
            ForeignFailure::new(line.source, line.position, line.queue, line.kind, bytes)
                .error(class, line.error_message.unwrap_or_default())
                .with(line.content_type, ForeignFailure::content_type)
                .with(line.error_detail, ForeignFailure::detail)
                .with(line.group_key, ForeignFailure::group_key)
                .with(line.failure_key, ForeignFailure::failure_key)
                .with(line.letter, ForeignFailure::past);
        let headers = line.headers.into_iter();
        let captured = headers.fold(captured, |of, (name, value)| of.header(name, value));
        captured
            .check()
            .map_err(|error| Error::from(error).one_line())?;
        Ok(captured)
    }
}

/// Deserializes a member so that `null` is a value and not an absent member.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Box<RawValue>>, D::Error> {
    Box::<RawValue>::deserialize(deserializer).map(Some)
}

/// Headers as strings. Other values are written as JSON.
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
