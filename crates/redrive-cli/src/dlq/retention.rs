//! `redrive dlq retention`: how long letters are kept.

use std::time::Duration;

use redrive::dlq::{LetterState, RetentionAction, RetentionRule as Rule};

use crate::prelude::*;

subcommands! {
    /// List, set and remove retention rules
    ///
    /// Without a rule, letters are kept forever. The workers apply the rules.
    pub(super) enum RetentionCommand {
        /// List the rules
        #[command(before_help = "Example:\n  redrive dlq retention list\n")]
        List(Plain).run(list),
        Set(SetRule),
        Remove(RemoveRule),
    }
}

/// Set the rule for letters in a state, in one queue or in every queue
///
/// Open and quarantined letters can only be archived.
#[derive(Args, Debug)]
#[command(before_help = "\
Examples:
  redrive dlq retention set recovered 30d
  redrive dlq retention set open 365d archive --queue orders --reason 'GDPR 17'
")]
pub(crate) struct SetRule {
    /// State of the letters: recovered, discarded, open or quarantined.
    state: LetterState,
    /// How long letters are kept in this state, such as 12h, 30d or 365d.
    #[arg(value_parser = time::parse, allow_hyphen_values = true)]
    keep: Duration,
    /// Action after that time: delete or archive.
    #[arg(default_value = "delete")]
    action: RetentionAction,
    /// Only in this queue. The rule takes precedence over the rule for every queue.
    #[arg(long)]
    queue: Option<String>,
    #[command(flatten)]
    reason: Reason,
}

/// Remove a rule
///
/// The rule for every queue then applies to its letters; without one they are kept forever.
#[derive(Args, Debug)]
#[command(before_help = "\
Example:
  redrive dlq retention remove open --queue orders
")]
pub(crate) struct RemoveRule {
    /// State of the rule.
    state: LetterState,
    /// Queue of the rule [default: the rule for every queue].
    #[arg(long)]
    queue: Option<String>,
    #[command(flatten)]
    reason: Reason,
}

/// Stands for the queue of a rule that applies to every queue.
const EVERY_QUEUE: &str = "(every)";

fn list(cx: &mut Context<'_>) -> Result<Ending> {
    let rules = cx.database()?.dlq().retention().list()?;
    let table = table!(rule in &rules => {
        Text "QUEUE" => rule.queue.as_deref().unwrap_or(EVERY_QUEUE),
        Word "STATE" => rule.state,
        Number "KEEP" => short(rule.keep),
        Word "THEN" => rule.action,
    });
    let none =
        format!("there are no retention rules; letters are kept until `{Me} prune --older-than`");
    cx.list(&none, &rules, rule_json, &table)
}

fn rule_json(rule: &Rule) -> impl Serialize {
    object!(rule => queue, state, keep_ms = rule.keep.json(), then = rule.action.as_str())
}

impl SetRule {
    fn run(&self, cx: &mut Context<'_>) -> Result<Ending> {
        let rule = match self.action {
            RetentionAction::Archive => Rule::archive(self.state, self.keep),
            RetentionAction::Delete | _ => Rule::delete(self.state, self.keep),
        };
        let rule = rule.with(self.queue.as_ref(), Rule::queue);
        let db = cx.database()?;
        db.dlq().retention().set(&rule, &self.reason.operator())?;
        let queue = one_line(rule.queue.as_deref().unwrap_or(EVERY_QUEUE));
        let (keep, action) = (short(rule.keep), rule.action);
        cx.print(
            &rule_json(&rule),
            format!(
                "queue {queue}: {} letters are kept for {keep}; then: {action}",
                rule.state
            ),
        )
    }
}

impl RemoveRule {
    fn run(&self, cx: &mut Context<'_>) -> Result<Ending> {
        let db = cx.database()?;
        let operator = self.reason.operator();
        if !db
            .dlq()
            .retention()
            .remove(self.queue.as_deref(), self.state, &operator)?
        {
            return cx.nothing(format!("there is no such rule for {} letters", self.state));
        }
        cx.print(
            &json!({ "queue": self.queue, "state": self.state.as_str(), "removed": true }),
            format!("removed the rule for {} letters", self.state),
        )
    }
}
