//! Filters that select dead letters or live jobs. A command acts on exactly what `list` shows.

pub(in crate::dlq) mod moment;
mod value;
mod payload;
mod syntax;
mod field;
mod fields;
mod conditions;

use std::fmt;
use std::marker::PhantomData;

use serde_json::{Map, Value};

use crate::dlq::state::LetterState;
use crate::error::{Error, Result};
use crate::job::job::JobId;
use crate::job::payload::Json;
use crate::job::setters::setters;

pub use conditions::stored_conditions;
pub use fields::filter_keys;
pub use moment::parse_moment;
pub use payload::Comparison;
pub(in crate::dlq) use payload::PayloadPath;

use conditions::wrong;
use payload::PayloadCondition;

/// Selects dead letters. An empty filter selects all of them; each method narrows it.
///
/// The same filter lists, counts, redrives, validates, edits, discards and exports.
///
/// ```
/// use redrive::dlq::{LetterFilter, DeathCause};
///
/// let filter = LetterFilter::new().queue("orders").cause(DeathCause::Rejected).limit(500);
/// assert_eq!(filter.to_string(), "queue=orders cause=rejected");
/// ```
///
/// A filter can be written as text, `"queue=orders cause=rejected".parse()`; see
/// its [`FromStr`](std::str::FromStr).
pub type LetterFilter = Filter<LetterFields>;

/// Selects live jobs. An empty filter selects all of them; each method narrows it.
///
/// A filter can be written as text, `"queue=orders state=ready".parse()`; see its [`FromStr`](std::str::FromStr).
pub type JobFilter = Filter<JobFields>;

/// The fields that a filter has: [`LetterFields`] or [`JobFields`].
pub trait Fields: Clone + fmt::Debug + Default + PartialEq + Send + Sync + 'static {
    /// What the filter selects: `letters` or `jobs`.
    const OF: &'static str;
}

/// The fields of filters of letters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LetterFields;

/// The fields of filters of jobs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JobFields;

impl Fields for LetterFields {
    const OF: &'static str = "letters";
}

impl Fields for JobFields {
    const OF: &'static str = "jobs";
}

/// Selects dead letters ([`LetterFilter`]) or live jobs ([`JobFilter`](crate::admin::JobFilter)).
#[derive(Clone, Debug, Default, PartialEq)]
#[must_use]
pub struct Filter<F> {
    /// The values of keys, as the database takes them.
    values: Map<String, Value>,
    payload: Vec<PayloadCondition>,
    pub(crate) after: Option<JobId>,
    pub(crate) limit: Option<u64>,
    /// Whether it selects in the archive.
    pub(crate) is_archived: bool,
    of: PhantomData<F>,
}

impl<F: Fields> Filter<F> {
    /// Selects everything of every queue.
    pub fn new() -> Filter<F> {
        Filter::default()
    }

    /// Selects by a value in the payload, at a path such as `customer.id` or `tags[0]."x y"`.
    /// Several payload conditions must all hold.
    ///
    /// ```
    /// use redrive::dlq::{Comparison, LetterFilter};
    ///
    /// let filter = LetterFilter::new().queue("orders").payload("customer.id", Comparison::Equal, 42)?;
    /// assert_eq!(filter.to_string(), "queue=orders payload.customer.id=42");
    /// # Ok::<(), redrive::Error>(())
    /// ```
    ///
    /// # Errors
    /// *Invalid* if the path does not parse, or if the value is a list or an object.
    pub fn payload(
        mut self,
        path: &str,
        comparison: Comparison,
        value: impl Into<Value>,
    ) -> Result<Filter<F>> {
        let dot = if path.starts_with('[') { "" } else { "." };
        let value: Value = value.into();
        let value = value.to_string();
        let place = PayloadPath::read(&format!("{dot}{path}"));
        let condition = place.and_then(|place| PayloadCondition::new(&place, comparison, &value));
        self.payload
            .push(condition.map_err(|why| wrong(path, &why))?);
        Ok(self)
    }

    setters! {
        /// Starts a list after this id: the next page. Only `list` accepts it, and a list of letters fails if that letter
        /// is gone.
        pub fn after(self, id: JobId) => self.after = Some(id);

        /// Selects at most this many. Defaults to 50 for `list`, otherwise to no limit.
        pub fn limit(self, limit: u64) => self.limit = Some(limit);
    }

    /// Narrows the filter by a text that is exactly one condition, such as one argument of a shell.
    ///
    /// A value may contain spaces without quotes.
    ///
    /// # Errors
    /// *Invalid* if the text is not a condition, and the message lists the conditions; or if the filter has it already.
    /// Conditions on the payload may repeat.
    pub fn condition(mut self, text: &str) -> Result<Filter<F>> {
        self.read(text.trim())?;
        Ok(self)
    }

    /// Returns the conditions that a filter can have, with an example of each, for a help text.
    pub fn help() -> String {
        let line = |field: &field::Field| format!("  {:<25}{}", field.example, field.selects);
        let lines: Vec<String> = fields::fields(F::OF).map(line).collect();
        lines.join("\n")
    }

    /// Sets a key.
    fn with(mut self, key: &str, value: Value) -> Filter<F> {
        self.values.insert(key.to_owned(), value);
        self
    }

    /// Returns the filter as a parameter of a statement that reads. It may have any number of ids.
    pub(crate) fn parameter(&self) -> Result<Json> {
        let mut values = self.values.clone();
        let predicates = self.payload.iter().map(|of| format!("({})", of.predicate));
        let predicates: Vec<String> = predicates.collect();
        if !predicates.is_empty() {
            values.insert("payload".to_owned(), predicates.join(" && ").into());
        }
        Json::large("the filter", &values)
    }

    /// Returns the limit of a list.
    pub(crate) fn most(&self) -> u64 {
        self.limit.unwrap_or(50)
    }

    /// Returns the filter as a parameter of a statement that lists no page.
    ///
    /// # Errors
    /// *Invalid* if the filter has [`after`](Filter::after).
    pub(crate) fn whole(&self) -> Result<Json> {
        match self.after {
            Some(_) => Err(Error::invalid(
                "`after` selects a page of a list and cannot be used here",
            )),
            None => self.parameter(),
        }
    }

    /// Returns the filter as a parameter of a statement that records it.
    ///
    /// # Errors
    /// *Invalid* if the filter has [`after`](Filter::after), or over 1 MiB.
    pub(crate) fn recorded(&self) -> Result<Json> {
        self.whole()?.within_limit("the filter")
    }

    /// Returns the filter as a parameter of a statement that takes all that match, and may record it.
    ///
    /// # Errors
    /// *Invalid* if the filter has a [`limit`](Filter::limit), for this reason; otherwise those of `recorded`.
    pub(crate) fn unlimited(&self, why: &str) -> Result<Json> {
        match self.limit {
            Some(_) => Err(Error::invalid(why)),
            None => self.recorded(),
        }
    }
}

/// Writes the conditions; an empty filter writes nothing. Leaves out `after` and the limit.
impl<F: Fields> fmt::Display for Filter<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.conditions().join(" "))
    }
}

impl Filter<LetterFields> {
    /// Selects letters in this state, unless the filter already names one.
    pub fn or_state(self, state: LetterState) -> LetterFilter {
        match self.named_states() {
            Some(_) => self,
            None => self.state(state),
        }
    }

    /// Returns the states that the filter names; `None`: it names none.
    pub fn named_states(&self) -> Option<Vec<LetterState>> {
        let named = self.values.get("state")?.as_array()?;
        let mut states = LetterState::ALL.to_vec();
        states.retain(|state| named.iter().any(|word| word == state.as_str()));
        Some(states)
    }

    /// Narrows the filter to letters in those of these states that it does not exclude. If it excludes all of them, the
    /// result selects nothing.
    pub fn within(&self, states: &[LetterState]) -> LetterFilter {
        let named = self.named_states();
        let is_named = |state: &LetterState| named.as_ref().is_none_or(|all| all.contains(state));
        let states = states.iter().copied().filter(is_named);
        self.clone().states(states)
    }

    /// The same filter of the archive.
    pub(crate) fn archived(&self) -> LetterFilter {
        let mut archived = self.clone();
        archived.is_archived = true;
        archived
    }

    /// Narrows the filter to ids that the same filter found.
    pub(crate) fn these(&self, ids: &[JobId]) -> LetterFilter {
        self.clone().ids(ids.iter().copied())
    }

    /// Returns the ids that the filter names.
    pub(crate) fn asked_ids(&self) -> Vec<JobId> {
        let ids = self.values.get("ids").and_then(Value::as_array);
        let ids = ids.into_iter().flatten().filter_map(Value::as_i64);
        ids.map(JobId::new).collect()
    }
}

#[cfg(test)]
mod tests;
