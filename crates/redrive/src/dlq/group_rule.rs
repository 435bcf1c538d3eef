//! Rules that merge and split failure groups.

use std::fmt;
use std::str::FromStr;
use std::time::SystemTime;

use crate::db::column::{Column, Given};
use crate::dlq::prelude::*;
use crate::job::new_job::check_key;

/// The letters per transaction.
const BATCH: i64 = 1000;
/// The longest pattern or path, in bytes, as `redrive.check_pattern` has it.
const MAX_PATTERN_BYTES: usize = 1024;

/// The property by which a group is split.
///
/// ```
/// use redrive::dlq::SplitBy;
///
/// let by: SplitBy = "error~timeout after [0-9]+ s".parse()?;
/// assert_eq!(by, SplitBy::Error("timeout after [0-9]+ s".to_owned()));
/// assert_eq!("payload.tenant.id".parse::<SplitBy>()?, SplitBy::Payload("tenant.id".to_owned()));
/// # Ok::<(), redrive::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SplitBy {
    /// Letters whose error message matches this regular expression of PostgreSQL, which has no back reference.
    Error(String),
    /// The error class of the letters, which differs after a merge.
    Class,
    /// The kind of the letters, which differs after a merge.
    Kind,
    /// The payload value at this path, such as `tenant.id`. Letters without it stay.
    Payload(String),
}

impl SplitBy {
    /// The action and the pattern, as stored.
    fn parts(&self) -> (&'static str, Option<&str>) {
        match self {
            SplitBy::Error(pattern) => ("error", Some(pattern)),
            SplitBy::Class => ("class", None),
            SplitBy::Kind => ("kind", None),
            SplitBy::Payload(path) => ("payload", Some(path)),
        }
    }

    fn check(&self) -> Result<()> {
        let pattern = self.parts().1;
        pattern.map_or(Ok(()), |pattern| {
            check_key("pattern or path of a split", pattern, MAX_PATTERN_BYTES)
        })
    }
}

impl fmt::Display for SplitBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SplitBy::Error(pattern) => write!(f, "error~{pattern}"),
            SplitBy::Class => f.pad("class"),
            SplitBy::Kind => f.pad("kind"),
            SplitBy::Payload(path) => write!(f, "payload.{path}"),
        }
    }
}

impl FromStr for SplitBy {
    type Err = Error;

    fn from_str(text: &str) -> Result<SplitBy> {
        let by = match (text, text.split_once('~'), text.strip_prefix("payload.")) {
            ("class", ..) => SplitBy::Class,
            ("kind", ..) => SplitBy::Kind,
            (_, Some(("error", pattern)), _) => SplitBy::Error(pattern.to_owned()),
            (_, _, Some(path)) => SplitBy::Payload(path.to_owned()),
            _ => {
                return Err(Error::invalid(format!(
                    "`{}` is not a way to split a group; expected error~REGEX, class, kind or payload.PATH",
                    text.escape_debug()
                )));
            }
        };
        by.check()?;
        Ok(by)
    }
}

impl Column for SplitBy {
    type Stored = String;

    fn read(stored: String) -> Result<SplitBy> {
        stored.parse()
    }
}

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
        /// The property by which its failures belong to separate groups; `None`: it is merged.
        pub by: Option<SplitBy>,
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

row! {
    /// Letters that a split would move together.
    #[derive(PartialEq, Eq)]
    pub struct SplitPart {
        /// The value or the pattern that they share.
        pub part: String,
        /// The number of letters.
        pub letters: u64,
    }
}

impl Groups<'_> {
    /// Merges a group into another: its letters move there, and so will future failures.
    ///
    /// The letters move in batches of 1,000, each in one transaction. The counts move with them.
    /// If the program dies in between, the same call moves the others.
    ///
    /// # Errors
    /// If a group does not exist or the merge would be a circle; otherwise if the database fails.
    pub fn merge(&self, group: GroupId, into: GroupId, operator: &Operator) -> Result<Regrouped> {
        let doing = format!("merge failure group {group} into {into}");
        let pattern: Option<&str> = None;
        self.add_rule(&doing, &[&group, &"merge", &Some(into), &pattern, operator])
    }

    /// Splits a group by a property of its failures. Letters move to new groups, and so will
    /// future failures.
    ///
    /// The letters move as in [`merge`](Groups::merge).
    ///
    /// # Errors
    /// If the group does not exist or the regular expression is invalid; otherwise if the database
    /// fails.
    pub fn split(&self, group: GroupId, by: &SplitBy, operator: &Operator) -> Result<Regrouped> {
        let doing = format!("split failure group {group}");
        let (action, pattern) = by.parts();
        let into: Option<GroupId> = None;
        self.add_rule(&doing, &[&group, &action, &into, &pattern, operator])
    }

    /// Returns what a split would move, the largest part first. Changes nothing.
    ///
    /// # Errors
    /// If the regular expression is invalid, or the database fails.
    pub fn preview_split(&self, group: GroupId, by: &SplitBy) -> Result<Vec<SplitPart>> {
        by.check()?;
        let (action, pattern) = by.parts();
        let doing = format!("preview the split of failure group {group}");
        let ask = self.db.ask_bulk();
        ask.all(&doing, &sql::PREVIEW_SPLIT, &[&group, &action, &pattern])
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

    /// Moves the letters of a rule's group that are not where the rules put them.
    fn apply_rule(self, id: GroupRuleId) -> Result<Regrouped> {
        let doing = format!("apply group rule {id}");
        let mut done = Regrouped {
            rule: id,
            moved: 0,
            locked: 0,
        };
        let mut after: Option<Json> = None;
        loop {
            let (next, moved, locked, is_last): (_, u64, u64, bool) =
                self.db
                    .ask_bulk()
                    .one(&doing, &sql::REGROUP_LETTERS, &[&id, &BATCH, &after])?;
            after = next;
            done.moved += moved;
            done.locked += locked;
            if is_last {
                return Ok(done);
            }
        }
    }

    fn add_rule(self, doing: &str, rule: &[&dyn Given]) -> Result<Regrouped> {
        let rule = self.db.ask().one(doing, &sql::ADD_GROUP_RULE, rule)?;
        self.apply_rule(rule)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ways_to_split_are_read_back() {
        for text in ["error~timeout|5..", "class", "kind", "payload.tenant.id"] {
            let by: SplitBy = text.parse().expect(text);
            assert_eq!(by.to_string(), text);
        }
        for text in ["", "error", "error~", "payload", "payload.", "queue"] {
            let error = text.parse::<SplitBy>().expect_err(text);
            assert!(error.is_invalid(), "{text}: {error}");
        }
    }
}
