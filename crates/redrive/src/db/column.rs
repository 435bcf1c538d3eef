//! The columns of rows and the parameters of statements, as types of the library.

use std::collections::BTreeMap;
use std::error::Error;
use std::time::{Duration, SystemTime};

use postgres::types::{FromSql, IsNull, ToSql, Type, accepts, to_sql_checked};
use serde_json::value::RawValue;
use uuid::Uuid;

use crate::error::Result;
use crate::job::headers::Headers;
use crate::job::job::JobId;
use crate::job::milliseconds::milliseconds;
use crate::job::operator::Operator;
use crate::job::payload::Json;
use crate::job::words::Word;

/// A type that a column can hold.
pub(crate) trait Column: Sized {
    type Stored: for<'a> FromSql<'a>;

    /// # Errors
    /// If a newer version stored a value that this one does not know.
    fn read(stored: Self::Stored) -> Result<Self>;
}

/// A type that a parameter can have. Its stored value outlives the call, which may be abandoned.
pub(crate) trait Value {
    type Stored: ToSql + Sync + Send + 'static;

    fn stored(&self) -> Self::Stored;
}

/// A parameter of any type, or an operator, who is two: the name and the reason.
pub(crate) trait Given {
    /// Adds it to the parameters of a statement.
    fn give(&self, given: &mut Vec<Box<dyn ToSql + Sync + Send>>);
}

impl<T: Value> Given for T {
    fn give(&self, given: &mut Vec<Box<dyn ToSql + Sync + Send>>) {
        given.push(Box::new(self.stored()));
    }
}

impl Given for Operator {
    fn give(&self, given: &mut Vec<Box<dyn ToSql + Sync + Send>>) {
        self.by().give(given);
        self.given_reason().give(given);
    }
}

/// A preview has no operator.
impl Given for Option<&Operator> {
    fn give(&self, given: &mut Vec<Box<dyn ToSql + Sync + Send>>) {
        match self {
            Some(operator) => operator.give(given),
            None => Operator::default().give(given),
        }
    }
}

macro_rules! as_they_are {
    ($($type:ty)*) => {$(
        impl Column for $type {
            type Stored = $type;

            fn read(stored: $type) -> Result<$type> {
                Ok(stored)
            }
        }

        impl Value for $type {
            type Stored = $type;

            fn stored(&self) -> $type {
                self.clone()
            }
        }
    )*};
}

as_they_are! { bool i16 i32 i64 f64 String SystemTime Uuid Vec<u8> Json }

/// A whole number of any size.
#[derive(Debug)]
pub(crate) struct Whole(i64);

impl<'a> FromSql<'a> for Whole {
    fn from_sql(ty: &Type, raw: &'a [u8]) -> Result<Whole, Box<dyn Error + Sync + Send>> {
        match *ty {
            Type::INT2 => i16::from_sql(ty, raw).map(|number| Whole(number.into())),
            Type::INT4 => i32::from_sql(ty, raw).map(|number| Whole(number.into())),
            _ => i64::from_sql(ty, raw).map(Whole),
        }
    }

    accepts!(INT2, INT4, INT8);
}

/// Counts and sizes. None is negative, except for an instant between two snapshots.
macro_rules! counts {
    ($($type:ty as $sent:ty;)*) => {$(
        impl Column for $type {
            type Stored = Whole;

            fn read(stored: Whole) -> Result<$type> {
                Ok(<$type>::try_from(stored.0.max(0)).unwrap_or(<$type>::MAX))
            }
        }

        impl Value for $type {
            type Stored = $sent;

            fn stored(&self) -> $sent {
                <$sent>::try_from(*self).unwrap_or(<$sent>::MAX)
            }
        }
    )*};
}

counts! {
    u64 as i64;
    u32 as i32;
}

macro_rules! id_columns {
    ($($type:ty)*) => {$(
        impl $crate::db::column::Column for $type {
            type Stored = i64;

            fn read(stored: i64) -> $crate::error::Result<$type> {
                Ok(<$type>::new(stored))
            }
        }

        impl $crate::db::column::Value for $type {
            type Stored = i64;

            fn stored(&self) -> i64 {
                self.get()
            }
        }
    )*};
}
pub(crate) use id_columns;

id_columns! { JobId }

impl<W: Word> Column for W {
    type Stored = String;

    fn read(stored: String) -> Result<W> {
        stored.parse()
    }
}

impl<W: Word> Value for W {
    type Stored = &'static str;

    fn stored(&self) -> &'static str {
        self.word()
    }
}

impl Column for Duration {
    type Stored = i64;

    fn read(stored: i64) -> Result<Duration> {
        Ok(Duration::from_millis(stored.max(0).unsigned_abs()))
    }
}

impl Value for Duration {
    type Stored = Milliseconds;

    fn stored(&self) -> Milliseconds {
        Milliseconds(milliseconds(*self))
    }
}

/// A time as the number of its milliseconds or as an interval, whichever the parameter is.
#[derive(Debug)]
pub(crate) struct Milliseconds(i64);

impl ToSql for Milliseconds {
    fn to_sql(
        &self,
        ty: &Type,
        out: &mut bytes::BytesMut,
    ) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        if *ty == Type::INT8 {
            return self.0.to_sql(ty, out);
        }
        out.extend_from_slice(&self.0.saturating_mul(1000).to_be_bytes());
        // Neither days nor months, whose length depends on the calendar.
        out.extend_from_slice(&[0; 8]);
        Ok(IsNull::No)
    }

    accepts!(INT8, INTERVAL);

    to_sql_checked!();
}

impl Column for Box<RawValue> {
    type Stored = Json;

    fn read(stored: Json) -> Result<Box<RawValue>> {
        stored.raw_value()
    }
}

impl Column for BTreeMap<String, String> {
    type Stored = Option<Json>;

    fn read(headers: Option<Json>) -> Result<BTreeMap<String, String>> {
        Ok(Headers::read(headers.as_ref().map(Json::as_str))?.0)
    }
}

impl Value for &[u8] {
    type Stored = Vec<u8>;

    fn stored(&self) -> Vec<u8> {
        self.to_vec()
    }
}

impl Value for &str {
    type Stored = String;

    fn stored(&self) -> String {
        (*self).to_owned()
    }
}

impl<T: Column> Column for Option<T> {
    type Stored = Option<T::Stored>;

    fn read(stored: Option<T::Stored>) -> Result<Option<T>> {
        stored.map(T::read).transpose()
    }
}

impl<T: Value> Value for Option<T> {
    type Stored = Option<T::Stored>;

    fn stored(&self) -> Option<T::Stored> {
        self.as_ref().map(T::stored)
    }
}

impl<T: Column> Column for Vec<T> {
    type Stored = Vec<T::Stored>;

    fn read(stored: Vec<T::Stored>) -> Result<Vec<T>> {
        stored.into_iter().map(T::read).collect()
    }
}

impl<T: Value> Value for Vec<T> {
    type Stored = Vec<T::Stored>;

    fn stored(&self) -> Vec<T::Stored> {
        self.iter().map(T::stored).collect()
    }
}

impl<T: Value> Value for &[T] {
    type Stored = Vec<T::Stored>;

    fn stored(&self) -> Vec<T::Stored> {
        self.iter().map(T::stored).collect()
    }
}
