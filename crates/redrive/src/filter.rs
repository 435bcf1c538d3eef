//! The filter: which letters a call means. What you list is what you act on.

mod language;
mod moment;
mod payload;
mod value;
mod written;

use std::time::{Duration, SystemTime};

use serde::{Serialize, Serializer};
use serde_json::Value;

use crate::error::{Error, Result};
use crate::group::GroupId;
use crate::job::{JobId, milliseconds};
use crate::letter::LetterState;
use crate::payload::Json;
use crate::reason::Reason;

use moment::LONGEST_AGE;
pub use payload::Comparison;
use payload::PayloadCondition;

/// Which letters a call means: all of them, narrowed by each of its methods.
///
/// The same filter lists, counts, redrives, validates, edits, discards and exports.
///
/// ```
/// use redrive::{Letters, Reason};
///
/// let which = Letters::queue("orders").reason(Reason::Rejected).limit(500);
/// assert_eq!(which.to_string(), "queue=orders reason=rejected");
/// ```
///
/// People write it as text, `"queue=orders reason=rejected".parse()`: see its
/// [`FromStr`](#impl-FromStr-for-Letters).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Letters {
    filter: Filter,
    pub(crate) after: Option<JobId>,
    pub(crate) limit: Option<u64>,
}

/// The filter as the database takes it; see `redrive.filter_letters`.
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
    reason: Option<Vec<&'static str>>,
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
}

fn as_predicate<S: Serializer>(
    conditions: &[PayloadCondition],
    serializer: S,
) -> std::result::Result<S::Ok, S::Error> {
    payload::predicate(conditions).serialize(serializer)
}

impl Letters {
    /// All letters of all queues.
    pub fn all() -> Letters {
        Letters::default()
    }

    /// The letters with these ids.
    pub fn ids(ids: impl IntoIterator<Item = JobId>) -> Letters {
        let mut which = Letters::default();
        which.filter.ids = Some(ids.into_iter().map(JobId::get).collect());
        which
    }

    /// The letters of a queue.
    pub fn queue(queue: impl Into<String>) -> Letters {
        let mut which = Letters::default();
        which.filter.queue = Some(queue.into());
        which
    }

    /// The letters of a failure group.
    pub fn group(group: GroupId) -> Letters {
        let mut which = Letters::default();
        which.filter.group = Some(vec![group.get()]);
        which
    }

    /// Only those of a kind.
    #[must_use]
    pub fn kind(mut self, kind: impl Into<String>) -> Letters {
        self.filter.kind = Some(kind.into());
        self
    }

    /// Only those that died for this reason.
    #[must_use]
    pub fn reason(self, reason: Reason) -> Letters {
        self.reasons([reason])
    }

    /// Only those that died for one of these reasons.
    #[must_use]
    pub fn reasons(mut self, reasons: impl IntoIterator<Item = Reason>) -> Letters {
        self.filter.reason = Some(reasons.into_iter().map(Reason::as_str).collect());
        self
    }

    /// Only those whose last error has this class.
    #[must_use]
    pub fn error_class(self, class: impl Into<String>) -> Letters {
        self.error_classes([class.into()])
    }

    /// Only those whose last error has one of these classes.
    #[must_use]
    pub fn error_classes<C: Into<String>>(
        mut self,
        classes: impl IntoIterator<Item = C>,
    ) -> Letters {
        self.filter.class = Some(classes.into_iter().map(Into::into).collect());
        self
    }

    /// Only those of these failure groups.
    #[must_use]
    pub fn groups(mut self, groups: impl IntoIterator<Item = GroupId>) -> Letters {
        self.filter.group = Some(groups.into_iter().map(GroupId::get).collect());
        self
    }

    /// Only those of this queue.
    #[must_use]
    pub fn of_queue(mut self, queue: impl Into<String>) -> Letters {
        self.filter.queue = Some(queue.into());
        self
    }

    /// Whether it says of which queue the letters are.
    pub fn names_a_queue(&self) -> bool {
        self.filter.queue.is_some()
    }

    /// Only those with this id or a higher one.
    #[must_use]
    pub fn from_id(mut self, id: JobId) -> Letters {
        self.filter.id_from = Some(id.get());
        self
    }

    /// Only those with this id or a lower one.
    #[must_use]
    pub fn to_id(mut self, id: JobId) -> Letters {
        self.filter.id_to = Some(id.get());
        self
    }

    /// Only those that died at this moment or later.
    #[must_use]
    pub fn died_from(mut self, moment: SystemTime) -> Letters {
        self.filter.died_from = Some(moment::written(moment));
        self
    }

    /// Only those that died before this moment.
    #[must_use]
    pub fn died_before(mut self, moment: SystemTime) -> Letters {
        self.filter.died_to = Some(moment::written(moment));
        self
    }

    /// Only those that had been redriven so often when they died last, or more often.
    #[must_use]
    pub fn generation_from(mut self, generation: u32) -> Letters {
        self.filter.generation_from = Some(generation.min(i32::MAX.unsigned_abs()));
        self
    }

    /// Only those that had been redriven so often when they died last, or less often.
    #[must_use]
    pub fn generation_to(mut self, generation: u32) -> Letters {
        self.filter.generation_to = Some(generation.min(i32::MAX.unsigned_abs()));
        self
    }

    /// Only those with such a value at a path of the payload, such as `customer.id` or
    /// `tags[0]."x y"`. Conditions add up.
    ///
    /// ```
    /// use redrive::{Comparison, Letters};
    ///
    /// let which = Letters::queue("orders").payload("customer.id", Comparison::Equal, 42)?;
    /// assert_eq!(which.to_string(), "queue=orders payload.customer.id=42");
    /// # Ok::<(), redrive::Error>(())
    /// ```
    ///
    /// # Errors
    /// *Invalid* when the path cannot be read, or the value is a list or an object, or has NUL.
    pub fn payload(
        mut self,
        path: &str,
        comparison: Comparison,
        value: impl Into<Value>,
    ) -> Result<Letters> {
        let condition = PayloadCondition::of(path, comparison, value.into())?;
        self.filter.payload.push(condition);
        Ok(self)
    }

    /// Only those whose message has this in it, in upper or lower case.
    #[must_use]
    pub fn message(mut self, part: impl Into<String>) -> Letters {
        self.filter.message = Some(part.into());
        self
    }

    /// Only those that this version of the program saw die.
    #[must_use]
    pub fn version(mut self, version: impl Into<String>) -> Letters {
        self.filter.version = Some(version.into());
        self
    }

    /// Only those that this host saw die.
    #[must_use]
    pub fn host(mut self, host: impl Into<String>) -> Letters {
        self.filter.host = Some(host.into());
        self
    }

    /// Only those that were captured from this source.
    #[must_use]
    pub fn source(mut self, source: impl Into<String>) -> Letters {
        self.filter.source = Some(source.into());
        self
    }

    /// Only those that this redrive run sent back last.
    #[must_use]
    pub fn run(mut self, run: i64) -> Letters {
        self.filter.run = Some(run);
        self
    }

    /// Only those in a state. A call that acts takes only the states that it can act on, whatever
    /// is asked for.
    #[must_use]
    pub fn state(mut self, state: LetterState) -> Letters {
        self.filter.state = Some(vec![state.as_str()]);
        self
    }

    /// Only those in this state, unless a state was said already.
    #[must_use]
    pub fn or_state(self, state: LetterState) -> Letters {
        match self.filter.state {
            Some(_) => self,
            None => self.state(state),
        }
    }

    /// Only those that died longer ago than this, by the database's clock.
    #[must_use]
    pub fn older_than(mut self, age: Duration) -> Letters {
        self.filter.older_than_ms = Some(milliseconds(age.min(LONGEST_AGE)));
        self
    }

    /// Only those that died since this long ago, by the database's clock.
    #[must_use]
    pub fn newer_than(mut self, age: Duration) -> Letters {
        self.filter.newer_than_ms = Some(milliseconds(age.min(LONGEST_AGE)));
        self
    }

    /// Lists what comes after this letter: the next page. For listing only.
    #[must_use]
    pub fn after(mut self, id: JobId) -> Letters {
        self.after = Some(id);
        self
    }

    /// At most this many. Listing defaults to 50; what acts has no limit by default.
    #[must_use]
    pub fn limit(mut self, limit: u64) -> Letters {
        self.limit = Some(limit);
        self
    }

    /// Of the letters that are meant those with these ids, which were found by the same filter.
    pub(crate) fn these(&self, ids: &[JobId]) -> Letters {
        let mut which = self.clone();
        which.filter.ids = Some(ids.iter().map(|id| id.get()).collect());
        which
    }

    /// The ids that were asked for by name.
    pub(crate) fn asked_ids(&self) -> &[i64] {
        self.filter.ids.as_deref().unwrap_or_default()
    }

    /// The filter as a parameter of a statement.
    pub(crate) fn filter(&self) -> Result<Json> {
        Json::of(&self.filter)
    }

    /// The limit as a parameter, or this many.
    pub(crate) fn most(&self, otherwise: i64) -> i64 {
        self.limit
            .map_or(otherwise, |limit| i64::try_from(limit).unwrap_or(i64::MAX))
    }

    /// # Errors
    /// *Invalid* when the filter says where a page begins.
    pub(crate) fn refuse_after(&self) -> Result<()> {
        match self.after {
            Some(_) => Err(Error::invalid(
                "`after` is for listing: it says where a page begins",
            )),
            None => Ok(()),
        }
    }
}
