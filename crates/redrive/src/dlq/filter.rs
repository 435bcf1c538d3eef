//! Filters that select dead letters. A command acts on exactly what `list` shows.

pub(in crate::dlq) mod moment;
pub(crate) mod payload;
pub(crate) mod value;
pub(crate) mod syntax;
mod written;
mod language;
mod combine;

use std::time::{Duration, SystemTime};

use serde::{Serialize, Serializer};
use serde_json::Value;

use crate::dlq::id::{GroupId, RunId};
use crate::dlq::state::LetterState;
use crate::error::{Error, Result};
use crate::job::death_cause::DeathCause;
use crate::job::duration::MAX_DURATION;
use crate::job::job::JobId;
use crate::job::milliseconds::milliseconds;
use crate::job::payload::Json;

pub use payload::Comparison;
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
/// [`FromStr`](#impl-FromStr-for-LetterFilter).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LetterFilter {
    filter: Filter,
    pub(crate) after: Option<JobId>,
    pub(crate) limit: Option<u64>,
}

/// The filter as `redrive.filter_letters` takes it.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
struct Filter {
    #[serde(skip_serializing_if = "Option::is_none")]
    ids: Option<Vec<i64>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    id_from: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    id_to: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    queue: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    kind: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    class: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    group: Option<Vec<i64>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cause: Option<Vec<&'static str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    state: Option<Vec<&'static str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    died_from: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    died_to: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    older_than_ms: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    newer_than_ms: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    generation_from: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    generation_to: Option<u32>,
    #[serde(skip_serializing_if = "Vec::is_empty", serialize_with = "as_predicate")]
    payload: Vec<PayloadCondition>,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    host: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    source: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    run: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    audit: Option<i64>,
}

/// Writes conditions on the payload as one `jsonpath` predicate.
pub(crate) fn as_predicate<S: Serializer>(
    conditions: &[PayloadCondition],
    serializer: S,
) -> std::result::Result<S::Ok, S::Error> {
    payload::predicate(conditions).serialize(serializer)
}

impl LetterFilter {
    /// Selects every letter of every queue.
    pub fn new() -> LetterFilter {
        LetterFilter::default()
    }

    /// Selects the letters with these ids.
    #[must_use]
    pub fn ids(mut self, ids: impl IntoIterator<Item = JobId>) -> LetterFilter {
        self.filter.ids = Some(ids.into_iter().map(JobId::get).collect());
        self
    }

    /// Selects the letters of one queue.
    #[must_use]
    pub fn queue(mut self, queue: impl Into<String>) -> LetterFilter {
        self.filter.queue = Some(queue.into());
        self
    }

    /// Selects the letters of one failure group.
    #[must_use]
    pub fn group(self, group: GroupId) -> LetterFilter {
        self.groups([group])
    }

    /// Selects letters of this kind.
    #[must_use]
    pub fn kind(mut self, kind: impl Into<String>) -> LetterFilter {
        self.filter.kind = Some(kind.into());
        self
    }

    /// Selects letters with this cause of death.
    #[must_use]
    pub fn cause(self, cause: DeathCause) -> LetterFilter {
        self.causes([cause])
    }

    /// Selects letters with one of these causes of death.
    #[must_use]
    pub fn causes(mut self, causes: impl IntoIterator<Item = DeathCause>) -> LetterFilter {
        self.filter.cause = Some(causes.into_iter().map(DeathCause::as_str).collect());
        self
    }

    /// Selects letters whose last error has this class.
    #[must_use]
    pub fn error_class(self, class: impl Into<String>) -> LetterFilter {
        self.error_classes([class.into()])
    }

    /// Selects letters whose last error has one of these classes.
    #[must_use]
    pub fn error_classes<C: Into<String>>(
        mut self,
        classes: impl IntoIterator<Item = C>,
    ) -> LetterFilter {
        self.filter.class = Some(classes.into_iter().map(Into::into).collect());
        self
    }

    /// Selects letters of these failure groups.
    #[must_use]
    pub fn groups(mut self, groups: impl IntoIterator<Item = GroupId>) -> LetterFilter {
        self.filter.group = Some(groups.into_iter().map(GroupId::get).collect());
        self
    }

    /// Returns whether the filter names a queue.
    pub fn has_queue(&self) -> bool {
        self.filter.queue.is_some()
    }

    /// Selects letters with this id or a higher one.
    #[must_use]
    pub fn ids_from(mut self, id: JobId) -> LetterFilter {
        self.filter.id_from = Some(id.get());
        self
    }

    /// Selects letters with this id or a lower one.
    #[must_use]
    pub fn ids_until(mut self, id: JobId) -> LetterFilter {
        self.filter.id_to = Some(id.get());
        self
    }

    /// Selects letters that died at this time or later.
    #[must_use]
    pub fn died_from(mut self, moment: SystemTime) -> LetterFilter {
        self.filter.died_from = Some(moment::written(moment));
        self
    }

    /// Selects letters that died before this time.
    #[must_use]
    pub fn died_before(mut self, moment: SystemTime) -> LetterFilter {
        self.filter.died_to = Some(moment::written(moment));
        self
    }

    /// Selects letters redriven at least `generation` times when they last died.
    #[must_use]
    pub fn generation_from(mut self, generation: u32) -> LetterFilter {
        self.filter.generation_from = Some(generation.min(i32::MAX.unsigned_abs()));
        self
    }

    /// Selects letters redriven at most `generation` times when they last died.
    #[must_use]
    pub fn generation_to(mut self, generation: u32) -> LetterFilter {
        self.filter.generation_to = Some(generation.min(i32::MAX.unsigned_abs()));
        self
    }

    /// Selects letters by a value in the payload, at a path such as `customer.id` or
    /// `tags[0]."x y"`. Several payload conditions must all hold.
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
    /// *Invalid* if the path does not parse, or if the value is a list, an object or
    /// contains NUL.
    pub fn payload(
        mut self,
        path: &str,
        comparison: Comparison,
        value: impl Into<Value>,
    ) -> Result<LetterFilter> {
        let condition = PayloadCondition::of(path, comparison, value.into())?;
        self.filter.payload.push(condition);
        Ok(self)
    }

    /// Selects letters whose error message contains this text, ignoring case.
    #[must_use]
    pub fn message(mut self, part: impl Into<String>) -> LetterFilter {
        self.filter.message = Some(part.into());
        self
    }

    /// Selects letters that died under this version of the program.
    #[must_use]
    pub fn version(mut self, version: impl Into<String>) -> LetterFilter {
        self.filter.version = Some(version.into());
        self
    }

    /// Selects letters that died on this host.
    #[must_use]
    pub fn host(mut self, host: impl Into<String>) -> LetterFilter {
        self.filter.host = Some(host.into());
        self
    }

    /// Selects letters captured from this source.
    #[must_use]
    pub fn source(mut self, source: impl Into<String>) -> LetterFilter {
        self.filter.source = Some(source.into());
        self
    }

    /// Selects letters that this run last redrove.
    #[must_use]
    pub fn run(mut self, run: RunId) -> LetterFilter {
        self.filter.run = Some(run.get());
        self
    }

    /// Selects the letters that an operation was the last to discard, reopen, restore or edit, by the id
    /// of its audit record.
    #[must_use]
    pub fn audit(mut self, record: i64) -> LetterFilter {
        self.filter.audit = Some(record);
        self
    }

    /// Selects letters in this state. A command that changes letters ignores states it
    /// cannot change.
    #[must_use]
    pub fn state(mut self, state: LetterState) -> LetterFilter {
        self.filter.state = Some(vec![state.as_str()]);
        self
    }

    /// Selects letters in one of these states.
    #[must_use]
    pub fn states(mut self, states: impl IntoIterator<Item = LetterState>) -> LetterFilter {
        self.filter.state = Some(states.into_iter().map(LetterState::as_str).collect());
        self
    }

    /// Selects letters in any state. [`or_state`](LetterFilter::or_state) then changes nothing.
    #[must_use]
    pub fn any_state(mut self) -> LetterFilter {
        self.filter.state = Some(LetterState::ALL.map(LetterState::as_str).to_vec());
        self
    }

    /// Selects letters in this state, unless the filter already names one.
    #[must_use]
    pub fn or_state(self, state: LetterState) -> LetterFilter {
        match self.filter.state {
            Some(_) => self,
            None => self.state(state),
        }
    }

    /// Returns the states that the filter names; `None`: it names none.
    pub fn named_states(&self) -> Option<Vec<LetterState>> {
        let named = self.filter.state.as_ref()?;
        let states = LetterState::ALL.into_iter();
        Some(
            states
                .filter(|state| named.contains(&state.as_str()))
                .collect(),
        )
    }

    /// Selects letters that died more than `age` ago, by the database's clock.
    #[must_use]
    pub fn older_than(mut self, age: Duration) -> LetterFilter {
        self.filter.older_than_ms = Some(milliseconds(age.min(MAX_DURATION)));
        self
    }

    /// Selects letters that died less than `age` ago, by the database's clock.
    #[must_use]
    pub fn newer_than(mut self, age: Duration) -> LetterFilter {
        self.filter.newer_than_ms = Some(milliseconds(age.min(MAX_DURATION)));
        self
    }

    /// Starts a list after this letter: the next page. Only `list` accepts it.
    #[must_use]
    pub fn after(mut self, id: JobId) -> LetterFilter {
        self.after = Some(id);
        self
    }

    /// Selects at most `limit` letters. Defaults to 50 for `list`, otherwise to no limit.
    #[must_use]
    pub fn limit(mut self, limit: u64) -> LetterFilter {
        self.limit = Some(limit);
        self
    }

    /// Narrows the filter to ids that the same filter found.
    pub(crate) fn these(&self, ids: &[JobId]) -> LetterFilter {
        let mut narrowed = self.clone();
        narrowed.filter.ids = Some(ids.iter().map(|id| id.get()).collect());
        narrowed
    }

    /// Returns the ids that the filter names.
    pub(crate) fn asked_ids(&self) -> &[i64] {
        self.filter.ids.as_deref().unwrap_or_default()
    }

    /// Returns the filter as a statement parameter.
    pub(crate) fn parameter(&self) -> Result<Json> {
        Json::of(&self.filter)
    }

    /// Returns the limit as a statement parameter, or the default.
    pub(crate) fn most(&self, otherwise: i64) -> i64 {
        self.limit
            .map_or(otherwise, |limit| i64::try_from(limit).unwrap_or(i64::MAX))
    }

    /// # Errors
    /// *Invalid* if the filter has [`after`](LetterFilter::after).
    pub(crate) fn refuse_after(&self) -> Result<()> {
        match self.after {
            Some(_) => Err(Error::invalid(
                "`after` selects a page of a list and cannot be used here",
            )),
            None => Ok(()),
        }
    }
}
