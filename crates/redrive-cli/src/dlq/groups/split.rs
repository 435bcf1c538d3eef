//! `redrive dlq groups split`.

use redrive::dlq::{GroupId, SplitBy, SplitPart};

use super::rules::report;
use super::show::not_found;
use crate::prelude::*;

/// Split a failure group: letters and future failures that match go to new groups
///
/// Without --yes this is a dry run that counts the letters of each new group. The rule stays until
/// `groups rules remove` removes it.
#[derive(Args, Debug)]
#[command(
    before_help = "\
Examples:
  redrive dlq groups split 4 --by 'error~lock timeout'
  redrive dlq groups split 4 --by payload.tenant --reason 'one tenant' --yes
",
    after_help = "\
Properties:
  error~REGEX    the error message matches a PostgreSQL regular expression
  payload.PATH   the payload value, one group per value; letters without it stay
  class, kind    one group per error class or kind, after a merge"
)]
pub(super) struct SplitGroup {
    /// The id of the group.
    group: GroupId,
    /// The property that decides; see below.
    #[arg(long, value_name = "PROPERTY")]
    by: SplitBy,
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
        if self.confirm.yes {
            let operator = self.confirm.reason.operator();
            let done = groups.split(self.group, &self.by, &operator)?;
            let what = format!(
                "group {} is split by {}",
                self.group,
                one_line(&self.by.to_string())
            );
            return report("split", &done, &what, cx);
        }
        let parts = groups.preview_split(self.group, &self.by)?;
        if parts.is_empty() {
            cx.no_change("split", "letters", true)?;
            return cx.nothing(format!("no letter of group {} matches", self.group));
        }
        let by = self.by.to_string();
        let json = |part: &SplitPart| {
            json!({
                "dry_run": true, "action": "split", "group": self.group.get(),
                "by": by, "part": part.part, "letters": part.letters,
            })
        };
        let table = table!(part in &parts => {
            Number "LETTERS" => grouped(part.letters),
            Text "WOULD MOVE TO" => part.part,
        });
        cx.items(&parts, json, &table)?;
        if cx.global.json {
            return Ok(Ending::Done);
        }
        writeln!(cx.out)?;
        cx.propose(&[self.confirm.to_act()])
    }
}
