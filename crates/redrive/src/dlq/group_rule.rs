//! Rules that merge and split failure groups.

use std::time::SystemTime;

use crate::db::column::Given;
use crate::dlq::prelude::*;

/// The letters per transaction.
const BATCH: i64 = 1000;

row! {
    /// A rule that an operator made for a failure group: it is merged or split.
    #[derive(PartialEq)]
    pub struct GroupRule {
        /// The id.
        pub id: GroupRuleId,
        /// The group whose failures it moves.
        pub group: GroupId,
        /// The title of the group.
        pub title: Option<String>,
        /// The group that all its failures belong to; `None`: it is split.
        pub into: Option<GroupId>,
        /// The regular expression of the messages whose failures have a group of their own; `None`: it is merged.
        pub pattern: Option<String>,
        /// When an operator made it.
        pub at: SystemTime,
        /// The operator.
        pub person: Option<String>,
        /// The operator's reason.
        pub reason: Option<String>,
    }
}

/// The letters that a rule moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Regrouped {
    /// The rule.
    pub rule: GroupRuleId,
    /// The letters that are now in other groups.
    pub moved: u64,
    /// The letters that another operation had locked. They stay until the call is repeated or they die again.
    pub locked: u64,
}

impl Groups<'_> {
    /// Merges a group into another: its letters and counts move there, and so will future failures.
    ///
    /// Each batch of 1,000 is one transaction. If the program dies in between, the same call moves the others.
    ///
    /// # Errors
    /// If a group does not exist or the merge would be a circle; otherwise if the database fails.
    pub fn merge(&self, group: GroupId, into: GroupId, operator: &Operator) -> Result<Regrouped> {
        let doing = format!("merge failure group {group} into {into}");
        let pattern: Option<&str> = None;
        self.add_rule(&doing, &[&group, &Some(into), &pattern, operator])
    }

    /// Returns how many letters a merge would move. Changes nothing.
    ///
    /// # Errors
    /// Those of [`merge`](Groups::merge).
    pub fn preview_merge(&self, group: GroupId, into: GroupId) -> Result<u64> {
        let doing = format!("preview the merge of failure group {group} into {into}");
        let (ask, pattern) = (self.db.ask_bulk(), None::<&str>);
        ask.one(&doing, &sql::PREVIEW_GROUP_RULE, &[&group, &into, &pattern])
    }

    /// Splits a group: letters whose error message matches a regular expression of PostgreSQL move to a new group, and
    /// so will future failures. The pattern has no back reference.
    ///
    /// The letters move as in [`merge`](Groups::merge).
    ///
    /// # Errors
    /// If the group does not exist or the regular expression is invalid; otherwise if the database
    /// fails.
    pub fn split(&self, group: GroupId, pattern: &str, operator: &Operator) -> Result<Regrouped> {
        let doing = format!("split failure group {group}");
        let into: Option<GroupId> = None;
        self.add_rule(&doing, &[&group, &into, &pattern, operator])
    }

    /// Returns how many letters a split would move. Changes nothing.
    ///
    /// # Errors
    /// Those of [`split`](Groups::split).
    pub fn preview_split(&self, group: GroupId, pattern: &str) -> Result<u64> {
        let doing = format!("preview the split of failure group {group}");
        let (ask, into) = (self.db.ask_bulk(), None::<GroupId>);
        ask.one(&doing, &sql::PREVIEW_GROUP_RULE, &[&group, &into, &pattern])
    }

    /// Returns all rules, in the order in which they apply.
    ///
    /// # Errors
    /// If the database fails.
    pub fn rules(&self) -> Result<Vec<GroupRule>> {
        let ask = self.db.ask();
        ask.all("list the rules of failure groups", &sql::GROUP_RULES, &[])
    }

    /// Removes a rule. Future failures no longer follow it; letters that it moved stay in their
    /// groups. Returns whether the rule existed.
    ///
    /// # Errors
    /// If the database fails.
    pub fn remove_rule(&self, id: GroupRuleId, operator: &Operator) -> Result<bool> {
        let doing = format!("remove group rule {id}");
        let ask = self.db.ask();
        ask.one(&doing, &sql::REMOVE_GROUP_RULE, &[&id, operator])
    }

    /// Adds a rule, and moves the letters of its group that are not where the rules put them.
    fn add_rule(self, doing: &str, rule: &[&dyn Given]) -> Result<Regrouped> {
        let id: GroupRuleId = self.db.ask().one(doing, &sql::ADD_GROUP_RULE, rule)?;
        let mut done = Regrouped {
            rule: id,
            moved: 0,
            locked: 0,
        };
        let mut after: Option<i64> = None;
        loop {
            let (next, moved, locked, is_last): (_, u64, u64, bool) =
                self.db
                    .ask_bulk()
                    .one(doing, &sql::REGROUP_LETTERS, &[&id, &BATCH, &after])?;
            after = next;
            done.moved += moved;
            done.locked += locked;
            if self.db.go_on(done.moved.into()).is_break() || is_last {
                return Ok(done);
            }
        }
    }
}
