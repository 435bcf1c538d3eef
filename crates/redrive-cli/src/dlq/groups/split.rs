//! `redrive dlq groups split`.

use redrive::dlq::{GroupId, GroupRule, Groups};

use super::rules::{regroup, report};
use super::show::not_found;
use crate::prelude::*;

/// Split a failure group: letters and future failures whose message matches go to a new group
///
/// Without --yes this is a dry run that counts the letters. The rule stays until `groups rules remove` removes it.
#[derive(Args, Debug)]
#[command(before_help = "\
Examples:
  redrive dlq groups split 4 --error 'lock timeout'
  redrive dlq groups split 4 --error 'shard 2[0-9]' --reason 'one rack' --yes
")]
pub(super) struct SplitGroup {
    /// The id of the group.
    group: GroupId,
    /// The error messages, as a regular expression of PostgreSQL.
    #[arg(long, value_name = "REGEX")]
    error: String,
    #[command(flatten)]
    confirm: Confirm,
}

impl SplitGroup {
    pub(super) fn run(&self, cx: &mut Context<'_>) -> Result<Ending> {
        let db = cx.database()?;
        let groups = db.dlq();
        let groups = groups.groups();
        if groups.get(self.group)?.is_none() {
            return not_found(self.group, cx);
        }
        let letters = groups.preview_split(self.group, &self.error)?;
        if self.confirm.yes {
            let operator = self.confirm.reason.operator();
            let split = |groups: Groups<'_>| groups.split(self.group, &self.error, &operator);
            let done = regroup(letters, cx, split)?;
            let what = format!("group {} is split by {}", self.group, one_line(&self.error));
            return report("split", &done, &what, cx);
        }
        let rules = groups.rules()?;
        let is_this = |rule: &GroupRule| {
            rule.group == self.group && rule.pattern.as_ref() == Some(&self.error)
        };
        let known = match rules.iter().find(|rule| is_this(rule)) {
            Some(rule) => format!("; it is split by this pattern already (rule {})", rule.id),
            None => String::new(),
        };
        if letters == 0 {
            cx.no_change("split", "letters", true)?;
            return cx.nothing(format!("no letter of group {} matches{known}", self.group));
        }
        cx.print(
            &json!({
                "dry_run": true, "action": "split", "group": self.group.get(),
                "pattern": self.error, "letters": letters,
            }),
            format!(
                "{} of group {} would move to a new group{known}.",
                counted(letters, "letter"),
                self.group
            ),
        )?;
        if cx.global.json {
            return Ok(Ending::Done);
        }
        writeln!(cx.out)?;
        cx.propose(&[self.confirm.to_act()])
    }
}
