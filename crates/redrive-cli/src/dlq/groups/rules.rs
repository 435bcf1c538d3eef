//! `redrive dlq groups rules`: the rules that merges and splits leave.

use clap::{Args, Subcommand};
use redrive::dlq::{GroupRule, GroupRuleAction, GroupRuleId, Regrouped};
use serde_json::json;

use crate::context::{Context, Ending};
use crate::error::Result;
use crate::operator;
use crate::profession::Profession;
use crate::terminal::{Column, Table, counted, grouped, json_line};
use crate::time::{ago, rfc3339};

/// List, apply and remove the rules that merge and split groups
#[derive(Args, Debug)]
pub(super) struct GroupRules {
    #[command(subcommand)]
    subcommand: RulesSubcommand,
}

#[derive(Debug, Subcommand)]
enum RulesSubcommand {
    /// List the rules, in the order in which they apply
    #[command(before_help = "Example:\n  redrive dlq groups rules list\n")]
    List,
    /// Move the letters that a merge or split left out because they were locked
    #[command(before_help = "Example:\n  redrive dlq groups rules apply 3\n")]
    Apply {
        /// The id of the rule.
        rule: GroupRuleId,
    },
    /// Remove a rule; letters that it moved stay in their groups
    #[command(before_help = "Example:\n  redrive dlq groups rules remove 3\n")]
    Remove {
        /// The id of the rule.
        rule: GroupRuleId,
        /// The reason, for the audit log.
        #[arg(long, value_name = "TEXT")]
        reason: Option<String>,
    },
}

impl GroupRules {
    /// The role that the command needs.
    pub(super) fn profession(&self) -> Profession {
        match self.subcommand {
            RulesSubcommand::List => Profession::Reader,
            RulesSubcommand::Apply { .. } | RulesSubcommand::Remove { .. } => Profession::Operator,
        }
    }

    pub(super) fn run(&self, cx: &mut Context<'_>) -> Result<Ending> {
        let db = cx.database()?;
        match &self.subcommand {
            RulesSubcommand::List => list(&db.dlq().groups().rules()?, cx),
            RulesSubcommand::Apply { rule } => {
                let done = db.dlq().groups().apply_rule(*rule)?;
                report("apply", &done, &format!("rule {rule} is applied"), cx)
            }
            RulesSubcommand::Remove { rule, reason } => {
                let operator = operator::current(reason.as_deref());
                let is_removed = db.dlq().groups().remove_rule(*rule, &operator)?;
                if !is_removed {
                    cx.say(format!("group rule {rule} does not exist"));
                    return Ok(Ending::NothingMatched);
                }
                match cx.global.json {
                    true => json_line(cx.out, &json!({ "id": rule.get(), "removed": true }))?,
                    false => writeln!(cx.out, "group rule {rule} is removed")?,
                }
                Ok(Ending::Done)
            }
        }
    }
}

/// Prints what a rule moved. Letters that were locked make the exit code 1.
pub(super) fn report(
    action: &str,
    done: &Regrouped,
    what: &str,
    cx: &mut Context<'_>,
) -> Result<Ending> {
    if cx.global.json {
        let skipped = match done.locked {
            0 => json!([]),
            letters => json!([{ "reason": "locked", "letters": letters }]),
        };
        json_line(
            cx.out,
            &json!({
                "action": action, "rule": done.rule.get(), "letters": done.moved,
                "skipped": skipped,
            }),
        )?;
    } else {
        writeln!(
            cx.out,
            "{what}; {} moved (rule {})",
            counted(done.moved, "letter"),
            done.rule
        )?;
    }
    if done.locked == 0 {
        return Ok(Ending::Done);
    }
    cx.say(format!(
        "{} locked by another operation. To move the rest:\n  {} dlq groups rules apply {}",
        locked(done.locked),
        cx.registry.name,
        done.rule
    ));
    Ok(Ending::NothingMatched)
}

fn list(rules: &[GroupRule], cx: &mut Context<'_>) -> Result<Ending> {
    if rules.is_empty() {
        cx.say("there are no group rules");
        return Ok(Ending::NothingMatched);
    }
    if cx.global.json {
        for rule in rules {
            let (into, by) = match &rule.action {
                GroupRuleAction::MergeInto(into) => (Some(into.get()), None),
                GroupRuleAction::Split(by) => (None, Some(by.to_string())),
                _ => (None, None),
            };
            json_line(
                cx.out,
                &json!({
                    "id": rule.id.get(), "group": rule.group.get(), "title": rule.title,
                    "into": into, "by": by, "created_at": rfc3339(rule.at), "person": rule.by,
                    "reason": rule.reason,
                }),
            )?;
        }
        return Ok(Ending::Done);
    }
    let mut table = Table::new([
        Column::Number("ID"),
        Column::Number("GROUP"),
        Column::Text("RULE"),
        Column::Number("AGE"),
        Column::Text("OPERATOR"),
        Column::Text("TITLE"),
    ]);
    for rule in rules {
        let action = match &rule.action {
            GroupRuleAction::MergeInto(into) => format!("merge into {into}"),
            GroupRuleAction::Split(by) => format!("split by {by}"),
            _ => "unknown".to_owned(),
        };
        table.row([
            rule.id.to_string(),
            rule.group.to_string(),
            action,
            ago(rule.at),
            rule.by.clone().unwrap_or_default(),
            rule.title.clone().unwrap_or_default(),
        ]);
    }
    table.write(cx.out)?;
    Ok(Ending::Done)
}

fn locked(letters: u64) -> String {
    match letters {
        1 => "1 letter was".to_owned(),
        _ => format!("{} letters were", grouped(letters)),
    }
}
