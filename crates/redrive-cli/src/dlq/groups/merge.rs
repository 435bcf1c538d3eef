//! `redrive dlq groups merge`.

use redrive::dlq::{GroupId, Groups};

use super::rules::{regroup, report};
use super::show::not_found;
use crate::prelude::*;

/// Merge failure groups: their letters and future failures go to one group
///
/// Without --yes this is a dry run. The last group is the target. The counts move with the letters. The
/// rule stays until `groups rules remove` removes it.
#[derive(Args, Debug)]
#[command(before_help = "\
Examples:
  redrive dlq groups merge 4 7
  redrive dlq groups merge 4 5 7 --reason 'one outage' --yes
")]
pub(super) struct MergeGroups {
    /// The groups to merge, and the one to merge them into.
    #[arg(required = true, num_args = 2.., value_name = "GROUP")]
    groups: Vec<GroupId>,
    #[command(flatten)]
    confirm: Confirm,
}

impl MergeGroups {
    pub(super) fn run(&self, cx: &mut Context<'_>) -> Result<Ending> {
        let [groups @ .., into] = &*self.groups else {
            return Err(Error::new("a merge needs two groups"));
        };
        let into = *into;
        let db = cx.database()?;
        let Some(target) = db.dlq().groups().get(into)? else {
            return not_found(into, cx);
        };
        let mut sources = Vec::new();
        for &id in groups {
            match db.dlq().groups().get(id)? {
                Some(group) => sources.push(group),
                None => return not_found(id, cx),
            }
        }
        if !self.confirm.yes {
            for group in &sources {
                let letters = db.dlq().groups().preview_merge(group.id, into)?;
                cx.print(
                    &json!({
                        "dry_run": true, "action": "merge", "group": group.id.get(),
                        "into": into.get(), "letters": letters,
                    }),
                    format!(
                        "group {} ({}) would be merged into group {into} ({}); {} would move.",
                        group.id,
                        one_line(&group.title),
                        one_line(&target.title),
                        counted(letters, "letter")
                    ),
                )?;
            }
            if cx.global.json {
                return Ok(Ending::Done);
            }
            writeln!(cx.out)?;
            return cx.propose(&[self.confirm.to_act()]);
        }
        let operator = self.confirm.reason.operator();
        let (mut merged, mut ending) = (Vec::new(), Ok(Ending::Done));
        // All of them before the first line, which nobody may read.
        for &id in groups {
            let letters = db.dlq().groups().preview_merge(id, into);
            let merge = |groups: Groups<'_>| groups.merge(id, into, &operator);
            match letters
                .map_err(Error::from)
                .and_then(|letters| regroup(letters, cx, merge))
            {
                Ok(done) => {
                    let is_stopped = done.is_stopped();
                    merged.push((id, done));
                    if is_stopped {
                        break;
                    }
                }
                Err(error) => {
                    ending = Err(error);
                    break;
                }
            }
        }
        for (id, done) in merged {
            let what = format!("group {id} is merged into group {into}");
            let reported = report("merge", &done, &what, cx)?;
            ending = ending.map(|ending| ending.and(reported));
        }
        ending
    }
}
