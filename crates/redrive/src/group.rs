//! Failure groups: letters that died of the same thing, counted without reading them.

use std::fmt;
use std::str::FromStr;
use std::time::SystemTime;

use postgres::Row;

use crate::act::Act;
use crate::database::Database;
use crate::error::{Error, Result};
use crate::failure::clip;
use crate::sql;

/// The longest note on a group, in bytes.
const NOTE_BYTES: usize = 4096;
/// The longest name of an owner, in bytes.
const OWNER_BYTES: usize = 200;

/// The id of a failure group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupId(i64);

impl GroupId {
    /// The group with this number.
    pub fn new(id: i64) -> GroupId {
        GroupId(id)
    }

    /// Its number.
    pub fn get(self) -> i64 {
        self.0
    }
}

impl fmt::Display for GroupId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for GroupId {
    type Err = Error;

    fn from_str(text: &str) -> Result<GroupId> {
        match text.parse() {
            Ok(id) if id > 0 => Ok(GroupId(id)),
            Ok(_) | Err(_) => Err(Error::invalid(format!(
                "`{}` is not the id of a failure group: a number over zero",
                text.escape_debug()
            ))),
        }
    }
}

/// What people have said of a failure group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum GroupState {
    /// Nobody has said anything, or it was resolved and has died again.
    Open,
    /// Somebody is at it.
    Acknowledged,
    /// It is fixed. When anything dies of it after that, it is open again: a regression.
    Resolved,
    /// It is known and nobody minds; it stays so when it dies again.
    Ignored,
}

impl GroupState {
    /// Every state.
    pub const ALL: [GroupState; 4] = [
        GroupState::Open,
        GroupState::Acknowledged,
        GroupState::Resolved,
        GroupState::Ignored,
    ];

    /// The word for it in the database, in metrics and in the CLI.
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
                "`{}` is not a state of a failure group; there are {known}",
                text.escape_debug()
            ))
        })
    }
}

/// A failure group: queue, kind, error class and message are the same but for numbers, ids,
/// quoted words, addresses and times.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct FailureGroup {
    /// Its id.
    pub id: GroupId,
    /// The queue of its letters.
    pub queue: String,
    /// The kind of its letters.
    pub kind: String,
    /// The class of their error.
    pub error_class: String,
    /// Their message, with `?` for what differs.
    pub title: String,
    /// The first message, as it came.
    pub sample: String,
    /// What people have said of it.
    pub state: GroupState,
    /// A note of somebody's.
    pub note: Option<String>,
    /// Whose it is.
    pub owner: Option<String>,
    /// When anything died of it first.
    pub first_seen: SystemTime,
    /// The version of the program that it was first seen in.
    pub first_version: Option<String>,
    /// When anything died of it last.
    pub last_seen: SystemTime,
    /// When somebody said last that it is fixed.
    pub resolved_at: Option<SystemTime>,
    /// When it died again after that.
    pub regressed_at: Option<SystemTime>,
    /// How often it was resolved and died again.
    pub regressions: u32,
    /// Deaths ever, those of letters that are gone included.
    pub deaths: u64,
    /// Letters that wait for somebody.
    pub open: u64,
    /// Letters whose jobs are live again.
    pub redriving: u64,
    /// Letters whose jobs were done after a redrive.
    pub recovered: u64,
    /// Letters that an operator closed.
    pub discarded: u64,
    /// Letters that died of it again after too many redrives.
    pub quarantined: u64,
    /// Deaths in each of the last 24 hours, the hour that runs last.
    pub hours: Vec<u64>,
}

impl FailureGroup {
    /// Whether it was resolved, died again, and nobody has resolved or ignored it since.
    pub fn is_regression(&self) -> bool {
        match self.state {
            GroupState::Open | GroupState::Acknowledged => {
                self.regressed_at >= self.resolved_at && self.regressed_at.is_some()
            }
            GroupState::Resolved | GroupState::Ignored => false,
        }
    }
}

/// Which failure groups a call means: all of them, narrowed by each of its methods.
#[derive(Clone, Debug, Default)]
pub struct Groups {
    id: Option<i64>,
    queue: Option<String>,
    kind: Option<String>,
    class: Option<String>,
    states: Option<Vec<&'static str>>,
    waiting: Option<i64>,
    limit: Option<u64>,
}

impl Groups {
    /// All groups.
    pub fn all() -> Groups {
        Groups::default()
    }

    /// Only those of a queue.
    #[must_use]
    pub fn queue(mut self, queue: impl Into<String>) -> Groups {
        self.queue = Some(queue.into());
        self
    }

    /// Only those of a kind.
    #[must_use]
    pub fn kind(mut self, kind: impl Into<String>) -> Groups {
        self.kind = Some(kind.into());
        self
    }

    /// Only those of an error class.
    #[must_use]
    pub fn error_class(mut self, class: impl Into<String>) -> Groups {
        self.class = Some(class.into());
        self
    }

    /// Only those in one of these states.
    #[must_use]
    pub fn states(mut self, states: impl IntoIterator<Item = GroupState>) -> Groups {
        self.states = Some(states.into_iter().map(GroupState::as_str).collect());
        self
    }

    /// Only those with letters that wait for somebody: open or quarantined ones.
    #[must_use]
    pub fn waiting(mut self) -> Groups {
        self.waiting = Some(1);
        self
    }

    /// At most this many, those with the most waiting letters first. Defaults to 50.
    #[must_use]
    pub fn limit(mut self, limit: u64) -> Groups {
        self.limit = Some(limit);
        self
    }
}

impl Database {
    /// Lists failure groups with exact numbers, those with the most waiting letters first.
    ///
    /// # Errors
    /// When the database refuses or does not answer.
    pub fn groups(&self, which: &Groups) -> Result<Vec<FailureGroup>> {
        let which = which.clone();
        let limit = i64::try_from(which.limit.unwrap_or(50)).unwrap_or(i64::MAX);
        self.call_bulk("list failure groups", move |session| {
            let rows = session.query(
                "list failure groups",
                &sql::GROUPS,
                &[
                    &which.id,
                    &which.queue,
                    &which.kind,
                    &which.class,
                    &which.states,
                    &which.waiting.unwrap_or(0),
                    &limit,
                ],
            )?;
            rows.iter().map(group).collect()
        })
    }

    /// One failure group.
    ///
    /// # Errors
    /// When the database refuses or does not answer.
    pub fn group(&self, id: GroupId) -> Result<Option<FailureGroup>> {
        let which = Groups {
            id: Some(id.get()),
            ..Groups::default()
        };
        Ok(self.groups(&which)?.pop())
    }

    /// Says what a failure group is: acknowledged, resolved, ignored, or open again. It changes
    /// no letter, and is written into the audit. Answers whether there is such a group.
    ///
    /// # Errors
    /// When the database refuses or does not answer.
    pub fn mark_group(&self, id: GroupId, state: GroupState, act: &Act) -> Result<bool> {
        self.tell_group(id, Saying::State(state), act)
    }

    /// Writes a note on a failure group in place of the one that is there; `None` takes it away.
    /// Answers whether there is such a group.
    ///
    /// # Errors
    /// When the database refuses or does not answer.
    pub fn note_group(&self, id: GroupId, note: Option<&str>, act: &Act) -> Result<bool> {
        let note = note.map(|note| clip(note.to_owned(), NOTE_BYTES));
        self.tell_group(id, Saying::Note(note), act)
    }

    /// Says whose a failure group is; `None`: nobody's. Answers whether there is such a group.
    ///
    /// # Errors
    /// When the database refuses or does not answer.
    pub fn own_group(&self, id: GroupId, owner: Option<&str>, act: &Act) -> Result<bool> {
        let owner = owner.map(|owner| clip(owner.to_owned(), OWNER_BYTES));
        self.tell_group(id, Saying::Owner(owner), act)
    }

    fn tell_group(&self, id: GroupId, saying: Saying, act: &Act) -> Result<bool> {
        let doing = format!("change failure group {id}");
        let act = act.clone();
        self.call(&doing.clone(), move |session| {
            let (by, why) = (act.by(), act.reason());
            let row = match &saying {
                Saying::State(state) => session.query_one(
                    &doing,
                    &sql::MARK_GROUP,
                    &[&id.get(), &state.as_str(), &by, &why],
                )?,
                Saying::Note(note) => {
                    session.query_one(&doing, &sql::NOTE_GROUP, &[&id.get(), note, &by, &why])?
                }
                Saying::Owner(owner) => {
                    session.query_one(&doing, &sql::OWN_GROUP, &[&id.get(), owner, &by, &why])?
                }
            };
            Ok(row.get("is_known"))
        })
    }
}

/// What a person says of a group.
enum Saying {
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
        assert_eq!("12".parse::<GroupId>().expect("an id"), GroupId::new(12));
        for text in ["0", "-1", "x", ""] {
            assert!(text.parse::<GroupId>().is_err(), "{text}");
        }
    }
}
