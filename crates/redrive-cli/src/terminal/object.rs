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
    type As<'a>: Serialize
    where
        Self: 'a;

    fn json(&self) -> Self::As<'_>;
}

macro_rules! as_json {
    ($($of:ty as $to:ty: |$value:ident| $json:expr;)*) => {$(
        impl Json for $of {
            type As<'a> = $to;

            fn json(&self) -> $to {
                let $value = self;
                $json
            }
        }
    )*};
    ($to:ty, $method:ident: $($of:ty)*) => {
        as_json! { $($of as $to: |value| value.$method();)* }
    };
    ($($of:ty)*) => {
        as_json! { $($of as $of: |value| *value;)* }
    };
}

as_json!(bool u8 i16 u32 u64 i64 f64);
as_json!(i64, get: JobId GroupId RunId);
as_json!(&'static str, as_str: BreakerCause BreakerState DeathCause GroupState JobState LetterState
    Missed Overlap RunState TickOutcome);
as_json! {
    SystemTime as String: |at| rfc3339(*at);
    Duration as u64: |time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
}

macro_rules! borrowed_json {
    ($($of:ty as $to:ty;)*) => {$(
        impl Json for $of {
            type As<'a> = &'a $to;

            fn json(&self) -> &$to {
                self
            }
        }
    )*};
}

borrowed_json! {
    String as str;
    Box<RawValue> as RawValue;
    BTreeMap<String, String> as BTreeMap<String, String>;
}

impl<T: Json> Json for Option<T> {
    type As<'a>
        = Option<T::As<'a>>
    where
        T: 'a;

    fn json(&self) -> Self::As<'_> {
        self.as_ref().map(Json::json)
    }
}

impl<T: Json> Json for Vec<T> {
    type As<'a>
        = Vec<T::As<'a>>
    where
        T: 'a;

    fn json(&self) -> Self::As<'_> {
        self.iter().map(Json::json).collect()
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
