//! Counts of letters by a property: what failed, since when, and for whom.

use std::time::SystemTime;

use crate::dlq::filter::PayloadPath;
use crate::dlq::prelude::*;

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
    /// A property is a field of filters that has words or numbers, such as `host`, or the place of a value in the
    /// payload, such as `payload.customer.id`.
    ///
    /// # Errors
    /// *Invalid* if there is no such property, or the filter is invalid; otherwise if the database fails.
    pub fn count_by(&self, filter: &LetterFilter, property: &str) -> Result<Vec<PropertyCount>> {
        let path = PayloadPath::parse(property).map_err(|why| {
            Error::invalid(format!("the property `{}` {why}", property.escape_debug()))
        })?;
        let property = path.as_ref().map_or(property, |_| "payload");
        self.db.ask_bulk().all(
            "count letters",
            &sql::COUNT_LETTERS_BY,
            &[&filter.whole()?, &property, &path.map(|path| path.jsonpath)],
        )
    }
}
