//! Failure groups: letters that died of the same error.

use std::time::SystemTime;

use crate::dlq::prelude::*;

words! {
    /// The state of a failure group, as set by operators.
    pub enum GroupState is "failure group state" {
        /// New, or resolved and failing again.
        Open = "open",
        /// Someone is working on it.
        Acknowledged = "acknowledged",
        /// Fixed. The next death reopens the group as a regression.
        Resolved = "resolved",
        /// Known and accepted. Further deaths do not reopen it.
        Ignored = "ignored",
    }
}

row! {
    /// Letters with the same queue, kind, error class, message and top stack frame of the application.
    ///
    /// Numbers, ids, addresses, paths, times and quoted data in the message make no difference; status
    /// codes, error codes and quoted identifiers do. A handler can replace message and frame with a
    /// [key](crate::Failure::failure_key).
    #[derive(PartialEq)]
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
        /// The message of the newest open or quarantined letter; the title if there is none.
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
        /// When an operator resolved the group. `None`: never, or an operator opened or ignored it since.
        pub resolved_at: Option<SystemTime>,
        /// Whether it was resolved, failed again, and is still open or acknowledged.
        pub is_regression: bool,
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
}

/// Selects failure groups. An empty filter selects all of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[must_use]
pub struct GroupFilter {
    ids: Option<Vec<GroupId>>,
    queue: Option<String>,
    states: Option<Vec<GroupState>>,
    waiting: bool,
    limit: Option<u64>,
}

impl GroupFilter {
    /// Selects all groups.
    pub fn new() -> GroupFilter {
        GroupFilter::default()
    }

    setters! {
        /// Selects the groups with these ids.
        pub fn ids(self, ids: impl IntoIterator<Item = GroupId>) =>
            self.ids = Some(ids.into_iter().collect());

        /// Selects groups of this queue.
        pub fn queue(self, queue: impl Into<String>) => self.queue = Some(queue.into());

        /// Selects groups in one of these states.
        pub fn states(self, states: impl IntoIterator<Item = GroupState>) =>
            self.states = Some(states.into_iter().collect());

        /// Selects groups with open or quarantined letters.
        pub fn waiting(self) => self.waiting = true;

        /// Selects at most `limit` groups. Defaults to 50.
        pub fn limit(self, limit: u64) => self.limit = Some(limit);
    }
}

impl Groups<'_> {
    /// Returns matching groups with exact counts, those with the most waiting letters
    /// first.
    ///
    /// # Errors
    /// If the database fails.
    pub fn list(&self, filter: &GroupFilter) -> Result<Vec<FailureGroup>> {
        self.db.ask_bulk().all(
            "list failure groups",
            &sql::GROUPS,
            &[
                &filter.ids,
                &filter.queue,
                &filter.states,
                &filter.waiting,
                &filter.limit.unwrap_or(50),
            ],
        )
    }

    /// Returns one group.
    ///
    /// # Errors
    /// If the database fails.
    pub fn get(&self, id: GroupId) -> Result<Option<FailureGroup>> {
        Ok(self.list(&GroupFilter::new().ids([id]))?.pop())
    }

    /// Sets the state of a group. Changes no letter. Returns whether the group exists.
    ///
    /// # Errors
    /// If the database fails.
    pub fn set_state(&self, id: GroupId, state: GroupState, operator: &Operator) -> Result<bool> {
        self.change(id, Some(state), None, None, operator)
    }

    /// Sets the note and the owner, a person or a team, of a group. `None` leaves one as it is, and an empty text removes
    /// it. Keeps 4,096 characters of a note and 200 of an owner. Returns whether the group exists.
    ///
    /// # Errors
    /// If the database fails.
    pub fn describe(
        &self,
        id: GroupId,
        note: Option<&str>,
        owner: Option<&str>,
        operator: &Operator,
    ) -> Result<bool> {
        self.change(id, None, note, owner, operator)
    }

    fn change(
        self,
        id: GroupId,
        state: Option<GroupState>,
        note: Option<&str>,
        owner: Option<&str>,
        operator: &Operator,
    ) -> Result<bool> {
        self.db.ask().one(
            &format!("change failure group {id}"),
            &sql::CHANGE_GROUP,
            &[&id, &state.map(GroupState::as_str), &note, &owner, operator],
        )
    }
}
