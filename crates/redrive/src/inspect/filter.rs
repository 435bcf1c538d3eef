//! Filters that select live jobs. A bulk operation changes what `list` shows.

mod language;

use std::time::Duration;

use serde::Serialize;
use serde_json::Value;

use crate::dlq::filter::as_predicate;
use crate::dlq::filter::payload::{Comparison, PayloadCondition};
use crate::error::{Error, Result};
use crate::inspect::state::JobState;
use crate::job::duration::MAX_DURATION;
use crate::job::job::JobId;
use crate::job::milliseconds::milliseconds;
use crate::job::payload::Json;

/// Selects live jobs. An empty filter selects all of them; each method narrows it.
///
/// ```
/// use std::time::Duration;
/// use redrive::admin::{JobFilter, JobState};
///
/// let filter = JobFilter::new().queue("orders").state(JobState::Ready).older_than(Duration::from_secs(300));
/// assert_eq!(filter.to_string(), "queue=orders state=ready age>5m");
/// ```
///
/// A filter can be written as text, `"queue=orders state=ready".parse()`; see
/// [`FromStr`](#impl-FromStr-for-JobFilter).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct JobFilter {
    filter: JobConditions,
    pub(crate) after: Option<JobId>,
    pub(crate) limit: Option<u64>,
}

/// The filter as `redrive.filter_jobs` takes it.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
struct JobConditions {
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
    state: Option<Vec<&'static str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    priority_from: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    priority_to: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    attempts_from: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    attempts_to: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    generation_from: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    generation_to: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    older_than_ms: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    newer_than_ms: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    unique: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty", serialize_with = "as_predicate")]
    payload: Vec<PayloadCondition>,
}

impl JobFilter {
    /// Selects every live job of every queue.
    pub fn new() -> JobFilter {
        JobFilter::default()
    }

    /// Selects the jobs with these ids.
    #[must_use]
    pub fn ids(mut self, ids: impl IntoIterator<Item = JobId>) -> JobFilter {
        self.filter.ids = Some(ids.into_iter().map(JobId::get).collect());
        self
    }

    /// Selects the jobs of one queue.
    #[must_use]
    pub fn queue(mut self, queue: impl Into<String>) -> JobFilter {
        self.filter.queue = Some(queue.into());
        self
    }

    /// Selects jobs of this kind.
    #[must_use]
    pub fn kind(mut self, kind: impl Into<String>) -> JobFilter {
        self.filter.kind = Some(kind.into());
        self
    }

    /// Selects jobs in this state. A bulk operation ignores leased jobs.
    #[must_use]
    pub fn state(self, state: JobState) -> JobFilter {
        self.states([state])
    }

    /// Selects jobs in one of these states.
    #[must_use]
    pub fn states(mut self, states: impl IntoIterator<Item = JobState>) -> JobFilter {
        self.filter.state = Some(states.into_iter().map(JobState::as_str).collect());
        self
    }

    /// Selects jobs with this priority or a higher one.
    #[must_use]
    pub fn priority_from(mut self, priority: i16) -> JobFilter {
        self.filter.priority_from = Some(priority.into());
        self
    }

    /// Selects jobs with this priority or a lower one.
    #[must_use]
    pub fn priority_to(mut self, priority: i16) -> JobFilter {
        self.filter.priority_to = Some(priority.into());
        self
    }

    /// Selects jobs with at least this many attempts in this generation, including a running one.
    #[must_use]
    pub fn attempts_from(mut self, attempts: u32) -> JobFilter {
        self.filter.attempts_from = Some(attempts.min(i32::MAX.unsigned_abs()));
        self
    }

    /// Selects jobs that were enqueued more than `age` ago, by the database's clock.
    #[must_use]
    pub fn older_than(mut self, age: Duration) -> JobFilter {
        self.filter.older_than_ms = Some(milliseconds(age.min(MAX_DURATION)));
        self
    }

    /// Selects jobs that were enqueued less than `age` ago, by the database's clock.
    #[must_use]
    pub fn newer_than(mut self, age: Duration) -> JobFilter {
        self.filter.newer_than_ms = Some(milliseconds(age.min(MAX_DURATION)));
        self
    }

    /// Selects jobs with this unique key.
    #[must_use]
    pub fn unique(mut self, key: impl Into<String>) -> JobFilter {
        self.filter.unique = Some(key.into());
        self
    }

    /// Selects jobs by a value in the payload, at a path such as `customer.id` or
    /// `tags[0]."x y"`. Several payload conditions must all hold.
    ///
    /// # Errors
    /// *Invalid* if the path does not parse, or if the value is a list, an object or
    /// contains NUL.
    pub fn payload(
        mut self,
        path: &str,
        comparison: Comparison,
        value: impl Into<Value>,
    ) -> Result<JobFilter> {
        let condition = PayloadCondition::of(path, comparison, value.into())?;
        self.filter.payload.push(condition);
        Ok(self)
    }

    /// Starts a list after this job: the next page. Only `list` accepts it.
    #[must_use]
    pub fn after(mut self, id: JobId) -> JobFilter {
        self.after = Some(id);
        self
    }

    /// Selects at most `limit` jobs. Defaults to 50 for `list`, otherwise to no limit.
    #[must_use]
    pub fn limit(mut self, limit: u64) -> JobFilter {
        self.limit = Some(limit);
        self
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
    /// *Invalid* if the filter has [`after`](JobFilter::after).
    pub(crate) fn refuse_after(&self) -> Result<()> {
        match self.after {
            Some(_) => Err(Error::invalid(
                "`after` selects a page of a list and cannot be used here",
            )),
            None => Ok(()),
        }
    }
}
