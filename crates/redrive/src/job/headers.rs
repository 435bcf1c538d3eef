//! Headers: metadata that travels with a job, and the time by which the job must start.

use std::collections::BTreeMap;
use std::str::FromStr;
use std::time::{Duration, SystemTime};

use jiff::Timestamp;
use serde_json::value::RawValue;

use crate::error::{Error, Result};
use crate::job::payload::Json;

/// The largest headers, in bytes as the server prints them: 64 KiB.
pub(crate) const MAX_HEADER_BYTES: usize = 65_536;
/// Names with this prefix belong to redrive.
const RESERVED: &str = "redrive-";
/// The header of a job that expires: milliseconds from its first enqueue. A redrive removes it.
pub(crate) const EXPIRES_IN: &str = "redrive-expires-in-ms";
/// The header of a job that holds its unique key only until it starts, and its value.
pub(crate) const UNIQUE_UNTIL: (&str, &str) = ("redrive-unique-until", "started");
/// The headers of the job of a schedule: its name, and the time of the tick in RFC 3339.
pub(crate) const SCHEDULE: &str = "redrive-schedule";
const SCHEDULED_FOR: &str = "redrive-scheduled-for";
/// The header of a job with a checkpoint: its JSON text.
pub(crate) const CHECKPOINT: &str = "redrive-checkpoint";
/// The header of a job that reported its progress.
pub(crate) const PROGRESS: &str = "redrive-progress";
/// The header of a job whose payload has a version other than 1. Producers that know no types may set it.
pub(crate) const PAYLOAD_VERSION: &str = "redrive-payload-version";
/// The headers of W3C Trace Context, which tracers write and read.
pub(crate) const TRACE_PARENT: &str = "traceparent";
const TRACE_STATE: &str = "tracestate";
/// The bytes that a checkpoint leaves for the progress and for other headers of redrive.
const RESERVED_BYTES: usize = 512;

/// The headers of a job.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Headers(pub(crate) BTreeMap<String, String>);

impl Headers {
    /// Continues the trace of another job, unless these headers name one.
    pub(crate) fn continue_trace(&mut self, of: &Headers) {
        if self.0.contains_key(TRACE_PARENT) {
            return;
        }
        for name in [TRACE_PARENT, TRACE_STATE] {
            if let Some(value) = of.0.get(name) {
                self.0.insert(name.to_owned(), value.clone());
            }
        }
    }

    /// Reads stored headers; `None`: there are none. A value that is no string, which SQL can store, becomes its JSON text.
    pub(crate) fn read(stored: Option<&str>) -> Result<Headers> {
        let Some(stored) = stored else {
            return Ok(Headers::default());
        };
        let members: BTreeMap<String, Box<RawValue>> = serde_json::from_str(stored)
            .map_err(|error| Error::invalid("the stored headers are no object").caused_by(error))?;
        let text = |value: &RawValue| {
            serde_json::from_str(value.get()).unwrap_or_else(|_| value.get().to_owned())
        };
        Ok(Headers(
            members
                .iter()
                .map(|(name, value)| (name.clone(), text(value)))
                .collect(),
        ))
    }

    /// Checks the headers of a new job. Only one without a type, which has a version, may say which its payload has.
    pub(crate) fn check(&self, of_type: Option<u32>) -> Result<()> {
        let is_free = |name: &str| of_type.is_none() && name == PAYLOAD_VERSION;
        let mut reserved =
            (self.0.keys()).filter(|name| name.starts_with(RESERVED) && !is_free(name));
        if let Some(name) = reserved.next() {
            return Err(Error::invalid(format!(
                "the header `{}` is reserved: names that start with `{RESERVED}` belong to redrive",
                name.escape_debug()
            )));
        }
        let version = self.0.get(PAYLOAD_VERSION);
        if let Some(version) = version.filter(|text| !text.parse().is_ok_and(|n: u32| n >= 1)) {
            return Err(Error::invalid(format!(
                "the header `{PAYLOAD_VERSION}` is `{}`; it must be a whole number from 1",
                version.escape_debug()
            )));
        }
        Ok(())
    }

    /// Checks that a checkpoint fits beside the other headers of a job.
    pub(crate) fn check_checkpoint(&self, checkpoint: &str) -> Result<()> {
        let mut all = self.0.clone();
        all.remove(PROGRESS);
        all.insert(CHECKPOINT.to_owned(), checkpoint.to_owned());
        let limit = MAX_HEADER_BYTES - RESERVED_BYTES;
        stored(&all, limit, "a job with this checkpoint").map(drop)
    }

    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    fn parsed<T: FromStr>(&self, name: &str) -> Option<T> {
        self.get(name)?.parse().ok()
    }

    /// Returns the time from the first enqueue by which the job must start; `None`: it never expires.
    pub(crate) fn expires_in(&self) -> Option<Duration> {
        self.parsed(EXPIRES_IN).map(Duration::from_millis)
    }

    pub(crate) fn payload_version(&self) -> u32 {
        self.parsed(PAYLOAD_VERSION).unwrap_or(1)
    }

    pub(crate) fn scheduled_for(&self) -> Option<SystemTime> {
        let tick: Option<Timestamp> = self.parsed(SCHEDULED_FOR);
        tick.map(SystemTime::from)
    }
}

/// Returns headers as the database stores them; `None`: there are none.
///
/// # Errors
/// *Invalid* if one contains NUL, or if they have more than `limit` bytes as the server prints them: with a space after each
/// colon and each comma.
pub(crate) fn stored(
    headers: &BTreeMap<String, String>,
    limit: usize,
    subject: &str,
) -> Result<Option<Json>> {
    if headers.is_empty() {
        return Ok(None);
    }
    let json = Json::large("a header", headers)?;
    match json.as_str().len() + 2 * headers.len() - 1 {
        bytes if bytes > limit => Err(Error::invalid(format!(
            "the headers of {subject} are {bytes} bytes; the limit is {limit}"
        ))),
        _ => Ok(Some(json)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(of: &[(&str, &str)]) -> Headers {
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        Headers(of.iter().map(owned).collect())
    }

    #[test]
    fn a_value_that_is_no_string_becomes_its_text() {
        let read = Headers::read(Some(r#"{"a": 1e400, "b": [1, "x"], "c": null, "d": "t"}"#));
        let (b, c) = (("b", r#"[1, "x"]"#), ("c", "null"));
        assert_eq!(read.unwrap(), headers(&[("a", "1e400"), b, c, ("d", "t")]));
    }

    #[test]
    fn a_checkpoint_fits_beside_the_other_headers() {
        let fits = "x".repeat(MAX_HEADER_BYTES - RESERVED_BYTES - CHECKPOINT.len() - 8);
        let old = headers(&[(CHECKPOINT, "old"), (PROGRESS, "old")]);
        let replaced = old.check_checkpoint(&fits);
        assert!(replaced.is_ok(), "it replaces the old one");
        let error = old.check_checkpoint(&format!("{fits}x")).unwrap_err();
        error.assert_invalid("65025 bytes; the limit is 65024");
        assert!(headers(&[("a", "1")]).check_checkpoint(&fits).is_err());
    }
}
