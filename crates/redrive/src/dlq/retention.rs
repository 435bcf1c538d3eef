//! Retention: how long letters are kept, and whether they are then deleted or archived. A letter without a rule is kept
//! forever.

use std::time::Duration;

use crate::dlq::prelude::*;

/// The letters per statement.
pub(crate) const RETAIN_BATCH: i32 = 2_000;

row! {
    /// A rule: how long to keep the letters of a state, in one queue or in all.
    ///
    /// The [guide](crate::_guide::dead_letters) has an example.
    #[derive(PartialEq, Eq)]
    #[must_use]
    pub struct RetentionRule {
        /// The queue; `None`: every queue without a rule of its own.
        pub queue: Option<String>,
        /// The state of the letters.
        pub state: LetterState,
        /// How long they are kept in this state.
        pub keep: Duration,
        /// The action after that time.
        pub action: RetentionAction,
    }
}

words! {
    /// The action at the end of the retention period.
    pub enum RetentionAction is "retention action" {
        /// Delete the letter.
        Delete = "delete",
        /// Move the whole letter into the archive.
        Archive = "archive",
    }
}

impl RetentionRule {
    /// Deletes letters that have been in this state for longer than `keep`. Open and quarantined letters can only be
    /// [archived](RetentionRule::archive).
    pub fn delete(state: LetterState, keep: Duration) -> RetentionRule {
        RetentionRule {
            queue: None,
            state,
            keep,
            action: RetentionAction::Delete,
        }
    }

    /// Archives letters that have been in this state for longer than `keep`.
    pub fn archive(state: LetterState, keep: Duration) -> RetentionRule {
        RetentionRule {
            action: RetentionAction::Archive,
            ..RetentionRule::delete(state, keep)
        }
    }

    setters! {
        /// Limits the rule to this queue, where it takes precedence over the rule for all queues.
        pub fn queue(self, queue: impl Into<String>) => self.queue = Some(queue.into());
    }
}

impl RetentionRules<'_> {
    /// Sets a rule, replacing the one for the same queue and state.
    ///
    /// # Errors
    /// *Invalid* if the queue has no valid name, or if the rule deletes open or quarantined letters; otherwise if the
    /// database fails.
    pub fn set(&self, rule: &RetentionRule, operator: &Operator) -> Result<()> {
        self.db.ask().one(
            &format!("set how long {} letters are kept", rule.state),
            &sql::SET_RETENTION,
            &[&rule.queue, &rule.state, &rule.keep, &rule.action, operator],
        )
    }

    /// Removes the rule for a state, of one queue or of all. Returns whether it existed.
    ///
    /// # Errors
    /// *Invalid* if the queue has no valid name; otherwise if the database fails.
    pub fn remove(
        &self,
        queue: Option<&str>,
        state: LetterState,
        operator: &Operator,
    ) -> Result<bool> {
        name::check_given("queue", queue)?;
        let doing = format!("remove the rule for {state} letters");
        let ask = self.db.ask();
        ask.one(&doing, &sql::REMOVE_RETENTION, &[&queue, &state, operator])
    }

    /// Returns the rules, those for all queues first.
    ///
    /// # Errors
    /// If the database fails.
    pub fn list(&self) -> Result<Vec<RetentionRule>> {
        let ask = self.db.ask();
        ask.all("list the retention rules", &sql::RETENTION, &[])
    }

    /// Applies the rules, as workers do once a minute, until no letter is due. Returns the number of deleted or archived
    /// letters.
    ///
    /// # Errors
    /// If the database fails.
    pub fn apply(&self, operator: &Operator) -> Result<u64> {
        self.db.ask_bulk().until_none(
            "apply retention",
            &sql::APPLY_RETENTION,
            &[&i64::from(RETAIN_BATCH), &"wait", operator],
        )
    }
}
