//! The fields of a value as one line of JSON.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use redrive::JobId;
use redrive::admin::{BreakerCause, BreakerState, JobState};
use redrive::dlq::runs::{RunId, RunState};
use redrive::dlq::{DeathCause, GroupId, GroupState, LetterState};
use redrive::schedule::{Missed, Overlap, TickOutcome};
use serde::Serialize;
use serde_json::value::RawValue;

use crate::time::rfc3339;

/// A value as JSON. Times are RFC 3339, durations milliseconds, ids numbers and states words.
pub(crate) trait Json {
    fn json(&self) -> impl Serialize;
}

macro_rules! as_json {
    ($($($of:ty),+: |$value:ident| $json:expr;)*) => {$($(
        impl Json for $of {
            #[allow(clippy::let_and_return, reason = "some values are JSON already")]
            fn json(&self) -> impl Serialize {
                let $value = self;
                $json
            }
        }
    )+)*};
}

as_json! {
    bool, u8, i16, u32, u64, i64, f64, String, Box<RawValue>, BTreeMap<String, String>: |value| value;
    JobId, GroupId, RunId: |id| id.get();
    BreakerCause, BreakerState, DeathCause, GroupState, JobState, LetterState, Missed, Overlap, RunState,
    TickOutcome: |word| word.as_str();
    SystemTime: |at| rfc3339(*at);
    Duration: |time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
}

impl<T: Json> Json for Option<T> {
    fn json(&self) -> impl Serialize {
        self.as_ref().map(T::json)
    }
}

impl<T: Json> Json for Vec<T> {
    fn json(&self) -> impl Serialize {
        self.iter().map(T::json).collect::<Vec<_>>()
    }
}

/// The fields of a value, by name, and others that are given: `object!(job => id, queue, age_ms = 7)`.
macro_rules! object {
    ($of:expr => $($name:ident $(= $value:expr)?),* $(,)?) => {{
        #[allow(
            non_camel_case_types,
            clippy::let_and_return,
            reason = "each field has a type of its own"
        )]
        let object = {
            #[derive(serde::Serialize)]
            struct Object<$($name),*> {
                $($name: $name,)*
            }
            Object {
                $($name: $crate::terminal::object!(@ $of, $name $(, $value)?),)*
            }
        };
        object
    }};
    (@ $of:expr, $name:ident) => {
        $crate::terminal::Json::json(&$of.$name)
    };
    (@ $of:expr, $name:ident, $value:expr) => {
        $value
    };
}
pub(crate) use object;
