//! `redrive dlq retention`: how long letters are kept.

use std::time::Duration;

use clap::{Args, Subcommand};
use redrive::dlq::{LetterState, RetentionAction, RetentionRule as Rule};
use serde_json::json;

use crate::context::{Context, Ending};
use crate::error::Result;
use crate::operator;
use crate::profession::Profession;
use crate::terminal::{Column, Table, json_line, one_line};
use crate::time::{self, short};

/// List, set and remove retention rules
///
/// Without a rule, letters are kept forever. The workers and `redrive prune` apply the rules.
#[derive(Args, Debug)]
pub(super) struct RetentionCommand {
    #[command(subcommand)]
    subcommand: RetentionSubcommand,
}

#[derive(Debug, Subcommand)]
enum RetentionSubcommand {
    /// List the rules; `redrive prune --dry-run` counts the letters that they affect now
    #[command(before_help = "\
Example:
  redrive dlq retention list
")]
    List,
    Set(SetRule),
    Remove(RemoveRule),
}

/// Set the rule for letters in a state, in one queue or in every queue
///
/// Open and quarantined letters are archived. To delete them, use --even-open.
#[derive(Args, Debug)]
#[command(before_help = "\
Examples:
  redrive dlq retention set recovered 30d
  redrive dlq retention set open 365d archive --queue orders --reason 'GDPR 17'
")]
struct SetRule {
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
    /// Delete open or quarantined letters.
    #[arg(long)]
    even_open: bool,
    /// The reason, for the audit log.
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
}

/// Remove a rule
///
/// The rule for every queue then applies to its letters; without one they are kept forever.
#[derive(Args, Debug)]
#[command(before_help = "\
Example:
  redrive dlq retention remove open --queue orders
")]
struct RemoveRule {
    /// State of the rule.
    state: LetterState,
    /// Queue of the rule [default: the rule for every queue].
    #[arg(long)]
    queue: Option<String>,
    /// The reason, for the audit log.
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
}

impl RetentionCommand {
    /// The role that the command needs.
    pub(super) fn profession(&self) -> Profession {
        match self.subcommand {
            RetentionSubcommand::List => Profession::Reader,
            RetentionSubcommand::Set(_) | RetentionSubcommand::Remove(_) => Profession::Operator,
        }
    }

    pub(super) fn run(&self, cx: &mut Context<'_>) -> Result<Ending> {
        match &self.subcommand {
            RetentionSubcommand::List => list(cx),
            RetentionSubcommand::Set(command) => command.run(cx),
            RetentionSubcommand::Remove(command) => command.run(cx),
        }
    }
}

fn list(cx: &mut Context<'_>) -> Result<Ending> {
    let rules = cx.database()?.dlq().retention().list()?;
    if rules.is_empty() {
        cx.say("there are no retention rules; letters are kept until they are pruned");
        return Ok(Ending::NothingMatched);
    }
    if cx.global.json {
        for rule in &rules {
            json_line(cx.out, &rule_json(rule))?;
        }
        return Ok(Ending::Done);
    }
    let mut table = Table::new([
        Column::Text("QUEUE"),
        Column::Word("STATE"),
        Column::Number("KEEP"),
        Column::Word("THEN"),
    ]);
    for rule in &rules {
        table.row(rule_cells(rule));
    }
    table.write(cx.out)?;
    Ok(Ending::Done)
}

/// The cells of a rule: queue, state, time, action.
pub(crate) fn rule_cells(rule: &Rule) -> [String; 4] {
    [
        rule.for_queue().unwrap_or("(every)").to_owned(),
        rule.state().to_string(),
        short(rule.keep()),
        rule.action().to_string(),
    ]
}

/// A rule as JSON.
pub(crate) fn rule_json(rule: &Rule) -> serde_json::Value {
    json!({
        "queue": rule.for_queue(),
        "state": rule.state().as_str(),
        "keep_ms": rule.keep().as_millis(),
        "action": rule.action().as_str(),
    })
}

impl SetRule {
    fn run(&self, cx: &mut Context<'_>) -> Result<Ending> {
        let mut rule = match self.action {
            RetentionAction::Archive => Rule::archive(self.state, self.keep),
            RetentionAction::Delete | _ => Rule::delete(self.state, self.keep),
        };
        if let Some(queue) = &self.queue {
            rule = rule.queue(queue);
        }
        if self.even_open {
            rule = rule.even_open();
        }
        let db = cx.database()?;
        db.dlq()
            .retention()
            .set(&rule, &operator::current(self.reason.as_deref()))?;
        if cx.global.json {
            json_line(cx.out, &rule_json(&rule))?;
        } else {
            let [queue, state, keep, action] = rule_cells(&rule);
            writeln!(
                cx.out,
                "queue {}: {state} letters are kept for {keep}; then: {action}",
                one_line(&queue)
            )?;
        }
        Ok(Ending::Done)
    }
}

impl RemoveRule {
    fn run(&self, cx: &mut Context<'_>) -> Result<Ending> {
        let db = cx.database()?;
        let operator = operator::current(self.reason.as_deref());
        if !db
            .dlq()
            .retention()
            .remove(self.queue.as_deref(), self.state, &operator)?
        {
            cx.say(format!("there is no such rule for {} letters", self.state));
            return Ok(Ending::NothingMatched);
        }
        if cx.global.json {
            json_line(
                cx.out,
                &json!({ "queue": self.queue, "state": self.state.as_str(), "removed": true }),
            )?;
        } else {
            writeln!(cx.out, "removed the rule for {} letters", self.state)?;
        }
        Ok(Ending::Done)
    }
}
