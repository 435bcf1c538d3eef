//! Payloads: typed values in Rust, JSON text on the wire, `json` in the database.
//!
//! Whatever `jsonb` would reject is rejected here first, with a message that names the fault, so
//! that conditions on the values of a payload find it.

use postgres::types::{FromSql, IsNull, ToSql, Type, accepts, to_sql_checked};
use serde::Serialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::Value;
use std::error::Error as StdError;
use std::iter;
use std::time::Duration;

use crate::error::{Error, Result};
use crate::job::backoff::Backoff;
use crate::job::failure::Failure;

/// The largest payload, in bytes of JSON text: 1 MiB.
pub const MAX_PAYLOAD_BYTES: usize = 1024 * 1024;

/// A type that can be the payload of jobs, with the defaults of these jobs.
///
/// The derive macro implements it by attributes:
///
/// ```
/// use std::time::Duration;
///
/// use redrive::{Backoff, Payload};
/// use serde::{Deserialize, Serialize};
///
/// #[derive(Serialize, Deserialize, Payload)]
/// #[payload(kind = "invoice", queue = "mails", attempts = 20, priority = 5)]
/// #[payload(deadline = Duration::from_secs(30), backoff = Backoff::fixed(Duration::from_secs(8)))]
/// #[payload(unique = "invoice {order}", group = Invoice::customer)]
/// struct Invoice {
///     order: i64,
///     customer: Option<i64>,
/// }
///
/// impl Invoice {
///     fn customer(&self) -> Option<String> {
///         self.customer.map(|id| format!("customer {id}"))
///     }
/// }
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let db = redrive::connect(&std::env::var("DATABASE_URL")?)?;
/// # db.migrate()?;
///
/// // To the queue `mails`, once, with 20 attempts.
/// let id = db.enqueue(&Invoice { order: 7, customer: Some(42) })?;
/// assert_eq!(db.enqueue(&Invoice { order: 7, customer: None })?, id);
/// # use redrive::Queue;
/// # let job = db.admin().job(id)?.expect("it is live");
/// # assert_eq!((job.max_attempts, job.priority, &*job.queue), (20, 5, "mails"));
/// # assert_eq!(job.unique_key.as_deref(), Some("invoice 7"));
/// # assert_eq!((Invoice::DEADLINE, Invoice::backoff().is_some()), (Some(Duration::from_secs(30)), true));
/// # Ok(()) }
/// ```
///
/// | attribute | value |
/// |---|---|
/// | `kind` | the [name](Payload::KIND) in the database; the only one without a default |
/// | `queue` `attempts` `priority` `deadline` `version` | the value of the constant |
/// | `backoff` | a [`Backoff`] |
/// | `unique` `group` | a text with named fields of the struct in braces, or a function of `&Self` that returns an `Option<String>` |
/// | `upgrade` | a function as [`upgrade`](Payload::upgrade) |
/// | `crate` | the path of this crate, if your program knows it by another name |
///
/// A number out of range does not compile:
///
/// ```compile_fail
/// #[derive(serde::Serialize, serde::Deserialize, redrive::Payload)]
/// #[payload(kind = "invoice", attempts = 0)]
/// struct Invoice {}
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

    /// The version of the payload's shape, from 1. Each job carries that of the program that enqueued it,
    /// through retries, death and redrive.
    ///
    /// Raise it when payloads of the earlier shape would not deserialize, or would mean something else,
    /// and let [`upgrade`](Payload::upgrade) read them. A program that gets a job of a higher version
    /// leaves it to a newer one; see [`Undecodable`](crate::Undecodable). 0 does not compile.
    const VERSION: u32 = 1;

    /// Turns a payload of an earlier version into one of [`VERSION`](Payload::VERSION). In a `Value`, integers beyond 64
    /// bits are rounded.
    ///
    /// ```
    /// use redrive::serde_json::{Value, json};
    /// use redrive::{Failure, Payload};
    /// # use serde::{Deserialize, Serialize};
    ///
    /// #[derive(Serialize, Deserialize, Payload)]
    /// #[payload(kind = "charge", version = 2, upgrade = upgrade)]
    /// struct Charge {
    ///     cents: i64,
    /// }
    ///
    /// // Version 1 had whole euros.
    /// fn upgrade(_from: u32, old: Value) -> Result<Value, Failure> {
    ///     let euros = old["euros"].as_i64().ok_or_else(|| Failure::reject("no euros"))?;
    ///     Ok(json!({ "cents": 100 * euros }))
    /// }
    /// # assert_eq!(Charge::upgrade(1, json!({ "euros": 7 })).unwrap(), json!({ "cents": 700 }));
    /// ```
    ///
    /// # Errors
    /// A payload that cannot be upgraded cannot be decoded. Defaults to such an error.
    fn upgrade(from: u32, _value: Value) -> Result<Value, Failure> {
        Err(Failure::reject(format!(
            "the payload has version {from}, and its type has no `upgrade` to version {}",
            Self::VERSION
        )))
    }
}

/// Reads a payload of a version of its type. A failure that asks for a retry means that a newer program
/// can read it.
pub(crate) fn read<P: Payload>(json: &str, version: u32) -> Result<P, Failure> {
    const { assert!(P::VERSION > 0, "VERSION counts from 1") };
    let wrong = |error: serde_json::Error| Failure::from(error).rejected();
    if version > P::VERSION {
        return Err(Failure::retry(format!(
            "the payload has version {version}, and this program reads up to {}",
            P::VERSION
        )));
    }
    if version == P::VERSION {
        return serde_json::from_str(json).map_err(wrong);
    }
    let old = serde_json::from_str(json).map_err(wrong)?;
    let new = P::upgrade(version, old).map_err(Failure::rejected)?;
    serde_json::from_value(new).map_err(wrong)
}

/// JSON text that `jsonb` accepts, within the size limit, or that the database stores.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Json(String);

impl Json {
    /// `what` is the subject of errors, such as "the payload".
    pub(crate) fn of<T: Serialize>(what: &str, value: &T) -> Result<Json> {
        Json::large(what, value)?.within_limit(what)
    }

    /// Returns JSON of any size, for a statement that takes it apart.
    pub(crate) fn large<T: Serialize>(what: &str, value: &T) -> Result<Json> {
        let text = serde_json::to_string(value).map_err(|error| {
            Error::invalid(format!("{what} cannot be serialized as JSON")).caused_by(error)
        })?;
        Json::accepted(what, text)
    }

    pub(crate) fn parse(text: &str) -> Result<Json> {
        serde_json::from_str::<IgnoredAny>(text)
            .map_err(|error| Error::invalid("the payload is not JSON").caused_by(error))?;
        Json::accepted("the payload", text.to_owned())?.within_limit("the payload")
    }

    fn accepted(what: &str, text: String) -> Result<Json> {
        match refused_by_jsonb(&text) {
            Some(fault) => Err(Error::invalid(format!("{what} {fault}"))),
            None => Ok(Json(text)),
        }
    }

    pub(crate) fn within_limit(self, what: &str) -> Result<Json> {
        match self.0.len() {
            ..=MAX_PAYLOAD_BYTES => Ok(self),
            bytes => Err(Error::invalid(format!(
                "{what} is {bytes} bytes; the limit is {MAX_PAYLOAD_BYTES}"
            ))),
        }
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the same text as a `serde_json` value that keeps it verbatim.
    pub(crate) fn raw_value(&self) -> Result<Box<serde_json::value::RawValue>> {
        serde_json::from_str(&self.0).map_err(|error| {
            Error::invalid("the payload is nested too deep to read").caused_by(error)
        })
    }
}

/// Finds what `jsonb` rejects in valid JSON: NUL, lone surrogates, and numbers beyond its numeric
/// type.
fn refused_by_jsonb(json: &str) -> Option<&'static str> {
    scalars(json).find_map(|scalar| match scalar.starts_with('"') {
        // Only escapes can be wrong.
        true if !scalar.contains('\\') => None,
        true => match serde_json::from_str::<String>(scalar) {
            Ok(text) if !text.contains('\0') => None,
            Ok(_) => Some("contains NUL (\\u0000), which jsonb cannot store"),
            Err(_) => Some("contains half of a surrogate pair"),
        },
        false => refused_number(scalar),
    })
}

/// Returns the strings, with their quotes, and the numbers of valid JSON.
pub(crate) fn scalars(json: &str) -> impl Iterator<Item = &str> {
    let mut rest = json;
    iter::from_fn(move || {
        let is_start = |byte: u8| byte == b'"' || byte == b'-' || byte.is_ascii_digit();
        let scalar = &rest[rest.bytes().position(is_start)?..];
        let end = if scalar.starts_with('"') {
            let mut is_escaped = false;
            let inside = scalar.bytes().skip(1).position(|byte| {
                let is_end = byte == b'"' && !is_escaped;
                is_escaped = byte == b'\\' && !is_escaped;
                is_end
            });
            inside.map(|length| length + 2)
        } else {
            scalar.find(|c| !"0123456789.eE+-".contains(c))
        };
        let (scalar, after) = scalar.split_at(end.unwrap_or(scalar.len()));
        rest = after;
        Some(scalar)
    })
}

/// Finds what `numeric` rejects in a number: more than 16,383 decimal places, or more than 131,072 digits before
/// them.
fn refused_number(number: &str) -> Option<&'static str> {
    let (significand, exponent) = number.split_once(['e', 'E']).unwrap_or((number, ""));
    let digits = significand.bytes().filter(u8::is_ascii_digit).count();
    match exponent.trim_start_matches(['+', '-', '0']).len() {
        _ if digits > 6000 => Some("contains a number of more than 6000 digits"),
        5.. => Some("contains a number with an exponent over 9999"),
        _ => None,
    }
}

impl ToSql for Json {
    fn to_sql(
        &self,
        ty: &Type,
        out: &mut bytes::BytesMut,
    ) -> Result<IsNull, Box<dyn StdError + Sync + Send>> {
        // The binary format of json is the text. That of jsonb has a version byte before it.
        if *ty == Type::JSONB {
            out.extend_from_slice(&[1]);
        }
        out.extend_from_slice(self.0.as_bytes());
        Ok(IsNull::No)
    }

    accepts!(JSON, JSONB);

    to_sql_checked!();
}

impl<'a> FromSql<'a> for Json {
    fn from_sql(ty: &Type, raw: &'a [u8]) -> Result<Json, Box<dyn StdError + Sync + Send>> {
        let text = match raw.split_first() {
            _ if *ty == Type::JSON => raw,
            Some((1, text)) => text,
            _ => return Err("unknown version of the jsonb format".into()),
        };
        Ok(Json(std::str::from_utf8(text)?.to_owned()))
    }

    accepts!(JSON, JSONB);
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
            error.assert_invalid(why);
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
        let error = Json::of("the payload", &"x".repeat(MAX_PAYLOAD_BYTES)).expect_err("too long");
        assert!(error.to_string().contains("1048578 bytes"), "{error}");
        assert!(Json::of("the payload", &"x".repeat(MAX_PAYLOAD_BYTES - 2)).is_ok());
    }
}
