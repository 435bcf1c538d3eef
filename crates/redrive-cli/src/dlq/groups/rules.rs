//! `redrive dlq groups rules`: the rules that merges and splits leave.

use redrive::dlq::{GroupRule, GroupRuleId, Groups, Regrouped};

use crate::batches::{Batches, Ended, Undo};
use crate::prelude::*;

subcommands! {
    /// List and remove the rules that merge and split groups
    pub(super) enum GroupRules {
        /// List the rules, in the order in which they apply
        #[command(before_help = "Example:\n  redrive dlq groups rules list\n")]
        List(Plain).run(list),
        Remove(RemoveRule),
    }
}

/// Remove a rule; letters that it moved stay in their groups
#[derive(Args, Debug)]
#[command(before_help = "Example:\n  redrive dlq groups rules remove 3\n")]
pub(crate) struct RemoveRule {
    /// The id of the rule.
    rule: GroupRuleId,
    #[command(flatten)]
    reason: Reason,
}

impl RemoveRule {
    fn run(&self, cx: &mut Context<'_>) -> Result<Ending> {
        let operator = self.reason.operator();
        let rule = self.rule;
        if !cx.database()?.dlq().groups().remove_rule(rule, &operator)? {
            return cx.nothing(format!("group rule {rule} does not exist"));
        }
        cx.print(
            &json!({ "id": rule.get(), "removed": true }),
            format!("group rule {rule} is removed"),
        )
    }
}

/// Adds a rule, which moves letters, `total` at the most, until a signal arrives.
pub(super) fn regroup(
    total: u64,
    cx: &mut Context<'_>,
    add: impl FnOnce(Groups<'_>) -> redrive::Result<Regrouped>,
) -> Result<Ended<Regrouped>> {
    let undo = Undo::Hint("repeat the command for the others");
    let moves = Batches::of_letters("move", "moved", undo);
    moves.run(total, cx, |db| add(db.dlq().groups()))
}

/// Prints what a rule moved. Letters that were locked make the exit code 1.
pub(super) fn report(
    action: &str,
    ended: &Ended<Regrouped>,
    what: &str,
    cx: &mut Context<'_>,
) -> Result<Ending> {
    let done = &ended.result;
    let skipped = match done.locked {
        0 => json!([]),
        letters => json!([{ "reason": "locked", "letters": letters }]),
    };
    cx.print(
        &json!({
            "action": action, "dry_run": false, "rule": done.rule.get(), "letters": done.moved, "skipped": skipped,
        }),
        format!(
            "{what}; {} moved (rule {})",
            counted(done.moved, "letter"),
            done.rule
        ),
    )?;
    if done.locked == 0 {
        return ended.or_stopped(Ending::Done, cx);
    }
    cx.nothing(format!(
        "not moved, because locked by another operation: {}; repeat the command for them",
        counted(done.locked, "letter")
    ))
}

fn list(cx: &mut Context<'_>) -> Result<Ending> {
    let rules = cx.database()?.dlq().groups().rules()?;
    let action = |rule: &GroupRule| match (rule.into, &rule.pattern) {
        (Some(into), _) => format!("merge into {into}"),
        (None, Some(pattern)) => format!("split by {pattern}"),
        (None, None) => "unknown".to_owned(),
    };
    let table = table!(rule in &rules => {
        Number "ID" => rule.id,
        Number "GROUP" => rule.group,
        Text "RULE" => action(rule),
        Number "AGE" => ago(rule.at),
        Text "OPERATOR" => rule.person.as_deref().unwrap_or_default(),
        Text "TITLE" => rule.title.as_deref().unwrap_or_default(),
    });
    cx.list("there are no group rules", &rules, rule_json, &table)
}

fn rule_json(rule: &GroupRule) -> impl Serialize {
    object!(rule =>
        id = rule.id.get(), group, title, into, pattern,
        created_at = rule.at.json(), person, reason,
    )
}
