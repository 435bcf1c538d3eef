//! Counts of letters by a property: what failed, since when, and for whom.

use std::fmt;
use std::str::FromStr;
use std::time::SystemTime;

use crate::dlq::filter::{PayloadPath, countable, payload_path};
use crate::dlq::prelude::*;

/// The most values that are returned.
const MAX_VALUES: i64 = 10_000;

/// A property of letters by which they are counted: a field of filters that has words or numbers, such as `host`, or the
/// place of a value in the payload, such as `payload.customer.id`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LetterProperty {
    field: &'static str,
    /// The place in the payload.
    path: Option<PayloadPath>,
}

impl LetterProperty {
    /// The failure group.
    pub const GROUP: LetterProperty = LetterProperty::of("group");

    const fn of(field: &'static str) -> LetterProperty {
        LetterProperty { field, path: None }
    }
}

/// Writes the property as in a filter: `host`, `payload.customer.id`.
impl fmt::Display for LetterProperty {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.field)?;
        self.path.iter().try_for_each(|path| path.fmt(f))
    }
}

/// Parses a property as in a filter.
impl FromStr for LetterProperty {
    type Err = Error;

    fn from_str(text: &str) -> Result<LetterProperty> {
        if let Some(path) = payload_path(text) {
            let (field, path) = ("payload", Some(PayloadPath::parse(path)?));
            return Ok(LetterProperty { field, path });
        }
        let mut words = countable();
        words
            .find(|word| *word == text)
            .map(LetterProperty::of)
            .ok_or_else(|| {
                Error::invalid(format!(
                    "unknown property `{}`; expected payload.PATH or one of {}",
                    text.escape_debug(),
                    countable().collect::<Vec<_>>().join(", ")
                ))
            })
    }
}

row! {
    /// The letters with one value of a property.
    #[derive(PartialEq, Eq)]
    pub struct PropertyCount {
        /// The value as in a filter; `None`: the letters have none. A text that looks like another type, such as `"42"`, is in
        /// quotes.
        pub value: Option<String>,
        /// How many letters have it.
        pub letters: u64,
        /// When the first of them died.
        pub first_at: SystemTime,
        /// When the last of them died.
        pub last_at: SystemTime,
    }
}

impl Dlq<'_> {
    /// Counts matching letters by the values of a property, the most frequent value first. Returns
    /// at most 10,000 values.
    ///
    /// # Errors
    /// If the filter is invalid, or the database fails.
    pub fn count_by(
        &self,
        filter: &LetterFilter,
        property: &LetterProperty,
    ) -> Result<Vec<PropertyCount>> {
        self.db.ask_bulk().all(
            "count letters",
            &sql::COUNT_LETTERS_BY,
            &[
                &filter.whole()?,
                &property.field,
                &property.path.as_ref().map(PayloadPath::names),
                &MAX_VALUES,
            ],
        )
    }
}
