//! Failure groups: letters that died of the same error.

use std::fmt;
use std::str::FromStr;
use std::time::SystemTime;

use postgres::Row;

use crate::db::sql;
use crate::dlq::handle::Groups;
use crate::dlq::id::GroupId;
use crate::error::{Error, Result};
use crate::job::error_report::clip;
use crate::job::operator::Operator;

/// The longest note, in bytes.
const NOTE_BYTES: usize = 4096;
/// The longest owner, in bytes.
const OWNER_BYTES: usize = 200;

/// The state of a failure group, as set by operators.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum GroupState {
    /// New, or resolved and failing again.
    Open,
    /// Someone is working on it.
    Acknowledged,
    /// Fixed. The next death reopens the group as a regression.
    Resolved,
    /// Known and accepted. Further deaths do not reopen it.
    Ignored,
}

impl GroupState {
    /// All states.
    pub const ALL: [GroupState; 4] = [
        GroupState::Open,
        GroupState::Acknowledged,
        GroupState::Resolved,
        GroupState::Ignored,
    ];

    /// Returns the name used in the database, in metrics and by the CLI.
    pub fn as_str(self) -> &'static str {
        match self {
            GroupState::Open => "open",
            GroupState::Acknowledged => "acknowledged",
            GroupState::Resolved => "resolved",
            GroupState::Ignored => "ignored",
        }
    }
}

impl fmt::Display for GroupState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for GroupState {
    type Err = Error;

    fn from_str(text: &str) -> Result<GroupState> {
        let found = GroupState::ALL
            .into_iter()
            .find(|state| state.as_str() == text);
        found.ok_or_else(|| {
            let known = GroupState::ALL.map(GroupState::as_str).join(", ");
            Error::invalid(format!(
                "unknown failure group state `{}`; expected one of {known}",
                text.escape_debug()
            ))
        })
    }
}

/// Letters with the same queue, kind, error class, message and top stack frame of the application.
///
/// Numbers, ids, addresses, paths, times and quoted data in the message make no difference; status
/// codes, error codes and quoted identifiers do. A handler can replace message and frame with a
/// [key](crate::Failure::group_key).
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct FailureGroup {
    /// The id.
    pub id: GroupId,
    /// The queue of the letters.
    pub queue: String,
    /// The kind of the letters.
    pub kind: String,
    /// The error class.
    pub error_class: String,
    /// The error message, with `?` for the parts that differ, and the stack frame; or the key of the
    /// handler.
    pub title: String,
    /// The first message, unmasked.
    pub sample: String,
    /// The message of the newest open or quarantined letter; the first message if there is none.
    pub newest: String,
    /// The state.
    pub state: GroupState,
    /// The operator's note.
    pub note: Option<String>,
    /// The owner.
    pub owner: Option<String>,
    /// When the first letter died.
    pub first_seen: SystemTime,
    /// The program version that failed first.
    pub first_version: Option<String>,
    /// When the last letter died.
    pub last_seen: SystemTime,
    /// When an operator last resolved the group.
    pub resolved_at: Option<SystemTime>,
    /// When a resolved group last failed again.
    pub regressed_at: Option<SystemTime>,
    /// How many times it failed again after it was resolved.
    pub regressions: u32,
    /// All deaths, including those of deleted letters.
    pub deaths: u64,
    /// Open letters.
    pub open: u64,
    /// Redriving letters.
    pub redriving: u64,
    /// Recovered letters.
    pub recovered: u64,
    /// Discarded letters.
    pub discarded: u64,
    /// Quarantined letters.
    pub quarantined: u64,
    /// Deaths per hour over the last 24 hours, the current hour last.
    pub hours: Vec<u64>,
}

impl FailureGroup {
    /// Returns whether the group was resolved, failed again, and is still open or
    /// acknowledged.
    pub fn is_regression(&self) -> bool {
        match self.state {
            GroupState::Open | GroupState::Acknowledged => {
                self.regressed_at >= self.resolved_at && self.regressed_at.is_some()
            }
            GroupState::Resolved | GroupState::Ignored => false,
        }
    }
}

/// Selects failure groups. An empty filter selects all of them.
#[derive(Clone, Debug, Default)]
pub struct GroupFilter {
    ids: Option<Vec<i64>>,
    queue: Option<String>,
    kind: Option<String>,
    class: Option<String>,
    states: Option<Vec<&'static str>>,
    waiting: Option<i64>,
    limit: Option<u64>,
}

impl GroupFilter {
    /// Selects all groups.
    pub fn new() -> GroupFilter {
        GroupFilter::default()
    }

    /// Selects the groups with these ids.
    #[must_use]
    pub fn ids(mut self, ids: impl IntoIterator<Item = GroupId>) -> GroupFilter {
        self.ids = Some(ids.into_iter().map(GroupId::get).collect());
        self
    }

    /// Selects groups of this queue.
    #[must_use]
    pub fn queue(mut self, queue: impl Into<String>) -> GroupFilter {
        self.queue = Some(queue.into());
        self
    }

    /// Selects groups of this kind.
    #[must_use]
    pub fn kind(mut self, kind: impl Into<String>) -> GroupFilter {
        self.kind = Some(kind.into());
        self
    }

    /// Selects groups with this error class.
    #[must_use]
    pub fn error_class(mut self, class: impl Into<String>) -> GroupFilter {
        self.class = Some(class.into());
        self
    }

    /// Selects groups in one of these states.
    #[must_use]
    pub fn states(mut self, states: impl IntoIterator<Item = GroupState>) -> GroupFilter {
        self.states = Some(states.into_iter().map(GroupState::as_str).collect());
        self
    }

    /// Selects groups with open or quarantined letters.
    #[must_use]
    pub fn waiting(mut self) -> GroupFilter {
        self.waiting = Some(1);
        self
    }

    /// Selects at most `limit` groups. Defaults to 50.
    #[must_use]
    pub fn limit(mut self, limit: u64) -> GroupFilter {
        self.limit = Some(limit);
        self
    }
}

impl Groups<'_> {
    /// Returns matching groups with exact counts, those with the most waiting letters
    /// first.
    ///
    /// # Errors
    /// If the database rejects the statement or does not answer.
    pub fn list(&self, filter: &GroupFilter) -> Result<Vec<FailureGroup>> {
        let filter = filter.clone();
        let limit = i64::try_from(filter.limit.unwrap_or(50)).unwrap_or(i64::MAX);
        self.db.call_bulk("list failure groups", move |session| {
            let rows = session.query(
                "list failure groups",
                &sql::GROUPS,
                &[
                    &filter.ids,
                    &filter.queue,
                    &filter.kind,
                    &filter.class,
                    &filter.states,
                    &filter.waiting.unwrap_or(0),
                    &limit,
                ],
            )?;
            rows.iter().map(group).collect()
        })
    }

    /// Returns one group.
    ///
    /// # Errors
    /// If the database rejects the statement or does not answer.
    pub fn get(&self, id: GroupId) -> Result<Option<FailureGroup>> {
        Ok(self.list(&GroupFilter::new().ids([id]))?.pop())
    }

    /// Sets the state of a group. Changes no letter. Returns whether the group exists.
    ///
    /// # Errors
    /// If the database rejects the statement or does not answer.
    pub fn set_state(&self, id: GroupId, state: GroupState, operator: &Operator) -> Result<bool> {
        self.change(id, GroupChange::State(state), operator)
    }

    /// Sets the note of a group; `None` removes it. Returns whether the group exists.
    ///
    /// # Errors
    /// If the database rejects the statement or does not answer.
    pub fn set_note(&self, id: GroupId, note: Option<&str>, operator: &Operator) -> Result<bool> {
        let note = note.map(|note| clip(note.to_owned(), NOTE_BYTES));
        self.change(id, GroupChange::Note(note), operator)
    }

    /// Sets the owner of a group; `None` removes it. Returns whether the group exists.
    ///
    /// # Errors
    /// If the database rejects the statement or does not answer.
    pub fn assign(&self, id: GroupId, owner: Option<&str>, operator: &Operator) -> Result<bool> {
        let owner = owner.map(|owner| clip(owner.to_owned(), OWNER_BYTES));
        self.change(id, GroupChange::Owner(owner), operator)
    }

    fn change(self, id: GroupId, change: GroupChange, operator: &Operator) -> Result<bool> {
        let doing = format!("change failure group {id}");
        let operator = operator.clone();
        self.db.call(&doing.clone(), move |session| {
            let (by, why) = (operator.by(), operator.given_reason());
            let row = match &change {
                GroupChange::State(state) => session.query_one(
                    &doing,
                    &sql::SET_GROUP_STATE,
                    &[&id.get(), &state.as_str(), &by, &why],
                )?,
                GroupChange::Note(note) => {
                    session.query_one(&doing, &sql::NOTE_GROUP, &[&id.get(), note, &by, &why])?
                }
                GroupChange::Owner(owner) => {
                    session.query_one(&doing, &sql::ASSIGN_GROUP, &[&id.get(), owner, &by, &why])?
                }
            };
            Ok(row.get("is_known"))
        })
    }
}

/// A change that an operator makes to a group.
enum GroupChange {
    State(GroupState),
    Note(Option<String>),
    Owner(Option<String>),
}

fn group(row: &Row) -> Result<FailureGroup> {
    let count = |column| row.get::<_, i64>(column).max(0).unsigned_abs();
    let hours: Vec<i64> = row.get("hours");
    Ok(FailureGroup {
        id: GroupId::new(row.get("id")),
        queue: row.get("queue"),
        kind: row.get("kind"),
        error_class: row.get("error_class"),
        title: row.get("title"),
        sample: row.get("sample"),
        newest: row.get("newest"),
        state: row.get::<_, &str>("state").parse()?,
        note: row.get("note"),
        owner: row.get("owner"),
        first_seen: row.get("first_seen"),
        first_version: row.get("first_version"),
        last_seen: row.get("last_seen"),
        resolved_at: row.get("resolved_at"),
        regressed_at: row.get("regressed_at"),
        regressions: row.get::<_, i32>("regressions").unsigned_abs(),
        deaths: count("deaths"),
        open: count("open"),
        redriving: count("redriving"),
        recovered: count("recovered"),
        discarded: count("discarded"),
        quarantined: count("quarantined"),
        hours: hours.into_iter().map(|n| n.max(0).unsigned_abs()).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_read_back() {
        for state in GroupState::ALL {
            assert_eq!(state.as_str().parse::<GroupState>().expect("a word"), state);
        }
        assert!("shut".parse::<GroupState>().is_err());
    }
}
