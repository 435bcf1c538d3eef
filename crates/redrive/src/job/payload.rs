//! Payloads: typed values in Rust, JSON text on the wire, `json` in the database.
//!
//! Whatever `jsonb` would reject is rejected here first, with a message that names the fault, so
//! that conditions on the values of a payload find it.

use postgres::types::{FromSql, IsNull, ToSql, Type, to_sql_checked};
use serde::Serialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use std::error::Error as StdError;
use std::time::Duration;

use crate::error::{Error, Result};
use crate::job::backoff::Backoff;

/// The largest payload, in bytes of JSON text: 1 MiB.
pub const MAX_PAYLOAD_BYTES: usize = 1024 * 1024;

/// A type that can be the payload of jobs, with the defaults of these jobs.
///
/// ```
/// use redrive::Payload;
/// use serde::{Deserialize, Serialize};
///
/// #[derive(Serialize, Deserialize)]
/// struct Invoice {
///     order: i64,
/// }
///
/// impl Payload for Invoice {
///     const KIND: &'static str = "invoice";
///     const QUEUE: Option<&'static str> = Some("mails");
///     const ATTEMPTS: u32 = 20;
///
///     fn unique(&self) -> Option<String> {
///         Some(format!("invoice {}", self.order))
///     }
/// }
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let db = redrive::connect(&std::env::var("DATABASE_URL")?)?;
/// # db.migrate()?;
///
/// // To the queue `mails`, once, with 20 attempts.
/// let id = db.enqueue(&Invoice { order: 7 })?;
/// assert_eq!(db.enqueue(&Invoice { order: 7 })?, id);
/// # Ok(()) }
/// ```
///
/// A job may have other values ([`NewJob`](crate::NewJob)), and so may a handler
/// ([`HandlerOptions`](crate::HandlerOptions)).
pub trait Payload: Serialize + DeserializeOwned {
    /// The name of the type in the database, shared by the program that enqueues and the one that
    /// runs. Renaming it strands the jobs stored under the old name.
    const KIND: &'static str;

    /// The queue of these jobs. Defaults to none: each enqueue names one. No other queue accepts them.
    const QUEUE: Option<&'static str> = None;

    /// The number of attempts before a job becomes a dead letter; see
    /// [`NewJob::max_attempts`](crate::NewJob::max_attempts).
    const ATTEMPTS: u32 = 5;

    /// The priority; see [`NewJob::priority`](crate::NewJob::priority).
    const PRIORITY: i16 = 0;

    /// How long a handler may run; see
    /// [`HandlerOptions::deadline`](crate::HandlerOptions::deadline). Defaults to the worker's deadline.
    const DEADLINE: Option<Duration> = None;

    /// Returns the delay before retries. Defaults to the worker's backoff.
    fn backoff() -> Option<Backoff> {
        None
    }

    /// Returns the unique key of a job; see [`NewJob::unique`](crate::NewJob::unique). Defaults to none.
    fn unique(&self) -> Option<String> {
        None
    }

    /// Returns the group of a job; see [`NewJob::group`](crate::NewJob::group). Defaults to none.
    fn group(&self) -> Option<String> {
        None
    }
}

/// JSON text that `jsonb` accepts, within the size limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Json(String);

impl Json {
    pub(crate) fn of<T: Serialize>(value: &T) -> Result<Json> {
        let text = serde_json::to_string(value).map_err(|error| {
            Error::invalid("the payload cannot be serialized as JSON").caused_by(error)
        })?;
        Json::checked(text)
    }

    pub(crate) fn parse(text: &str) -> Result<Json> {
        serde_json::from_str::<IgnoredAny>(text)
            .map_err(|error| Error::invalid("the payload is not JSON").caused_by(error))?;
        Json::checked(text.to_owned())
    }

    fn checked(text: String) -> Result<Json> {
        if text.len() > MAX_PAYLOAD_BYTES {
            return Err(Error::invalid(format!(
                "the payload is {} bytes; the limit is {MAX_PAYLOAD_BYTES}",
                text.len()
            )));
        }
        if let Some(fault) = refused_by_jsonb(text.as_bytes()) {
            return Err(Error::invalid(format!("the payload {fault}")));
        }
        Ok(Json(text))
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the same text as a `serde_json` value that keeps it verbatim.
    pub(crate) fn raw_value(&self) -> Result<Box<serde_json::value::RawValue>> {
        serde_json::from_str(&self.0)
            .map_err(|error| Error::invalid("the payload is not JSON").caused_by(error))
    }
}

/// Finds what `jsonb` rejects in valid JSON: NUL, lone surrogates, and numbers beyond its numeric
/// type.
fn refused_by_jsonb(json: &[u8]) -> Option<&'static str> {
    let mut at = 0;
    let mut in_string = false;
    while let Some(&byte) = json.get(at) {
        match byte {
            b'"' => in_string = !in_string,
            b'\\' if in_string => {
                if json.get(at + 1) == Some(&b'u') {
                    match escape(json, at) {
                        Some(0) => {
                            return Some("contains NUL (\\u0000), which jsonb cannot store");
                        }
                        Some(0xD800..=0xDBFF)
                            if matches!(escape(json, at + 6), Some(0xDC00..=0xDFFF)) =>
                        {
                            at += 6;
                        }
                        Some(0xD800..=0xDFFF) => return Some("contains half of a surrogate pair"),
                        _ => {}
                    }
                    at += 4;
                }
                at += 1;
            }
            b'0'..=b'9' if !in_string => {
                let length = json[at..]
                    .iter()
                    .take_while(|byte| b"0123456789.eE+-".contains(byte))
                    .count();
                if let Some(fault) = refused_number(&json[at..at + length]) {
                    return Some(fault);
                }
                at += length - 1;
            }
            _ => {}
        }
        at += 1;
    }
    None
}

/// Finds what `numeric` rejects in a number: more than 16,383 decimal places, or more than 131,072 digits before
/// them.
fn refused_number(number: &[u8]) -> Option<&'static str> {
    let mut parts = number.split(|byte| b"eE".contains(byte));
    let (significand, exponent) = (parts.next()?, parts.next().unwrap_or_default());
    if significand
        .iter()
        .filter(|byte| byte.is_ascii_digit())
        .count()
        > 6000
    {
        return Some("contains a number of more than 6000 digits");
    }
    if exponent
        .iter()
        .skip_while(|byte| b"+-0".contains(byte))
        .count()
        > 4
    {
        return Some("contains a number with an exponent over 9999");
    }
    None
}

/// Returns the code unit of the `\uXXXX` escape at `at`.
fn escape(json: &[u8], at: usize) -> Option<u16> {
    let digits = json.get(at..at + 6)?.strip_prefix(b"\\u")?;
    u16::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}

impl ToSql for Json {
    fn to_sql(
        &self,
        ty: &Type,
        out: &mut bytes::BytesMut,
    ) -> std::result::Result<IsNull, Box<dyn StdError + Sync + Send>> {
        // The binary format of json is the text. That of jsonb has a version byte before it.
        if *ty == Type::JSONB {
            out.extend_from_slice(&[1]);
        }
        out.extend_from_slice(self.0.as_bytes());
        Ok(IsNull::No)
    }

    fn accepts(ty: &Type) -> bool {
        matches!(*ty, Type::JSON | Type::JSONB)
    }

    to_sql_checked!();
}

/// The text of a `json` or `jsonb` column, not decoded.
#[derive(Clone, Debug)]
pub(crate) struct JsonText(pub(crate) Box<[u8]>);

impl<'a> FromSql<'a> for JsonText {
    fn from_sql(
        ty: &Type,
        raw: &'a [u8],
    ) -> std::result::Result<JsonText, Box<dyn StdError + Sync + Send>> {
        match raw.split_first() {
            _ if *ty == Type::JSON => Ok(JsonText(raw.into())),
            Some((1, text)) => Ok(JsonText(text.into())),
            _ => Err("unknown version of the jsonb format".into()),
        }
    }

    fn accepts(ty: &Type) -> bool {
        matches!(*ty, Type::JSON | Type::JSONB)
    }
}

impl JsonText {
    /// Returns the same text as a parameter of a statement.
    pub(crate) fn json(&self) -> Result<Json> {
        let text = String::from_utf8(self.0.to_vec())
            .map_err(|error| Error::invalid("the stored JSON is not UTF-8").caused_by(error))?;
        Ok(Json(text))
    }

    /// Returns the same text as a `serde_json` value that keeps it verbatim.
    pub(crate) fn raw_value(&self) -> Result<Box<serde_json::value::RawValue>> {
        serde_json::from_slice(&self.0).map_err(|error| {
            Error::invalid("the stored payload is nested too deep to read").caused_by(error)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_that_jsonb_rejects_is_rejected_with_its_fault() {
        for (json, why) in [
            (r#"{"a":"x\u0000y"}"#, "NUL"),
            (r#""\ud800""#, "surrogate"),
            (r#""\ud800\u0041""#, "surrogate"),
            (r#""\udc00""#, "surrogate"),
            ("1e123456", "exponent"),
            ("[-1.5E+0012345]", "exponent"),
            (&"1".repeat(6001), "6000 digits"),
            (&format!("0.{}", "0".repeat(6000)), "6000 digits"),
            ("{broken", "not JSON"),
            ("", "not JSON"),
            ("1 2", "not JSON"),
        ] {
            let error = Json::parse(json).expect_err(json);
            assert!(
                error.is_invalid() && error.to_string().contains(why),
                "{json}: {error}"
            );
        }
    }

    #[test]
    fn json_that_only_looks_invalid_is_accepted() {
        for json in [
            r#""\\u0000""#,
            r#""\ud83d\ude00""#,
            "1e400",
            "-1.5E-0300",
            r#"{"1e99999":"e99999 1e99999"}"#,
            &format!("[{0}e-9999, {0}E9999]", "1".repeat(6000)),
        ] {
            assert!(Json::parse(json).is_ok(), "{json}");
        }
    }

    #[test]
    fn a_payload_over_the_limit_is_rejected() {
        let error = Json::of(&"x".repeat(MAX_PAYLOAD_BYTES)).expect_err("too long");
        assert!(error.to_string().contains("1048578 bytes"), "{error}");
        assert!(Json::of(&"x".repeat(MAX_PAYLOAD_BYTES - 2)).is_ok());
    }
}
