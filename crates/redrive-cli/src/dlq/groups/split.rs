//! `redrive dlq groups split`.

use clap::Args;
use redrive::dlq::{GroupId, SplitBy};
use serde_json::json;

use super::rules::report;
use super::show::not_found;
use crate::context::{Context, Ending};
use crate::dlq::filter::quoted;
use crate::error::Result;
use crate::operator;
use crate::terminal::{Column, Table, Window, command_lines, grouped, json_line, one_line};

/// Split a failure group: letters and future failures that match go to new groups
///
/// Without --yes this is a dry run that counts the letters of each new group. The rule stays until
/// `groups rules remove` removes it.
#[derive(Args, Debug)]
#[command(
    before_help = "\
Examples:
  redrive dlq groups split 4 --by 'error~lock timeout'
  redrive dlq groups split 4 --by payload.tenant --reason 'one tenant is broken' --yes
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
    /// The reason, for the audit log.
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    /// Split the group.
    #[arg(long)]
    yes: bool,
}

impl SplitGroup {
    pub(super) fn run(&self, cx: &mut Context<'_>) -> Result<Ending> {
        let db = cx.database()?;
        let groups = db.dlq();
        let groups = groups.groups();
        if groups.get(self.group)?.is_none() {
            return Ok(not_found(self.group, cx));
        }
        if self.yes {
            let operator = operator::current(self.reason.as_deref());
            let done = groups.split(self.group, &self.by, &operator)?;
            let what = format!(
                "group {} is split by {}",
                self.group,
                one_line(&self.by.to_string())
            );
            return report("split", &done, &what, cx);
        }
        let parts = groups.preview_split(self.group, &self.by)?;
        if cx.global.json {
            for part in &parts {
                json_line(
                    cx.out,
                    &json!({
                        "dry_run": true, "action": "split", "group": self.group.get(),
                        "by": self.by.to_string(), "part": part.part, "letters": part.letters,
                    }),
                )?;
            }
        }
        if parts.is_empty() {
            cx.say(format!("no letter of group {} matches", self.group));
            return Ok(Ending::NothingMatched);
        }
        if !cx.global.json {
            let mut table = Table::new([Column::Number("LETTERS"), Column::Text("WOULD MOVE TO")]);
            for part in &parts {
                table.row([grouped(part.letters), part.part.clone()]);
            }
            table.write(cx.out)?;
            let reason = self.reason.as_deref();
            let reason = reason.map(|reason| format!(" --reason {}", quoted(reason)));
            let command = format!(
                "{} dlq groups split {} --by {}{} --yes",
                cx.registry.name,
                self.group,
                quoted(&self.by.to_string()),
                reason.unwrap_or_default()
            );
            writeln!(
                cx.out,
                "\nNothing was changed. To act:\n{}",
                command_lines("  ", &command, Window::of_stdout().columns())
            )?;
        }
        Ok(Ending::Done)
    }
}
