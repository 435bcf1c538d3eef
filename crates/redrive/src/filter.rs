//! The filter: which letters a call means. What you list is what you act on.

use std::time::Duration;

use serde::Serialize;

use crate::error::{Error, Result};
use crate::group::GroupId;
use crate::job::{JobId, milliseconds};
use crate::letter::LetterState;
use crate::payload::Json;
use crate::reason::Reason;

/// Which letters a call means: all of them, narrowed by each of its methods.
///
/// The same filter lists, counts, redrives, validates, edits, discards and exports.
///
/// ```
/// use redrive::{Letters, Reason};
///
/// let which = Letters::queue("orders").reason(Reason::Rejected).limit(500);
/// ```
#[derive(Clone, Debug, Default)]
pub struct Letters {
    filter: Filter,
    pub(crate) after: Option<JobId>,
    pub(crate) limit: Option<u64>,
}

/// The filter as the database takes it; see `redrive.filter_letters`.
#[derive(Clone, Debug, Default, Serialize)]
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
    class: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    group: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    state: Option<&'static str>,
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
    #[serde(skip_serializing_if = "Option::is_none")]
    payload: Option<String>,
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
        which.filter.group = Some(group.get());
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
    pub fn reason(mut self, reason: Reason) -> Letters {
        self.filter.reason = Some(reason.as_str());
        self
    }

    /// Only those whose last error has this class.
    #[must_use]
    pub fn error_class(mut self, class: impl Into<String>) -> Letters {
        self.filter.class = Some(class.into());
        self
    }

    /// Only those in a state. A call that acts takes only the states that it can act on, whatever
    /// is asked for.
    #[must_use]
    pub fn state(mut self, state: LetterState) -> Letters {
        self.filter.state = Some(state.as_str());
        self
    }

    /// Only those that died longer ago than this, by the database's clock.
    #[must_use]
    pub fn older_than(mut self, age: Duration) -> Letters {
        self.filter.older_than_ms = Some(milliseconds(age));
        self
    }

    /// Only those that died since this long ago, by the database's clock.
    #[must_use]
    pub fn newer_than(mut self, age: Duration) -> Letters {
        self.filter.newer_than_ms = Some(milliseconds(age));
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
