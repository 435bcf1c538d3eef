//! `redrive dlq archive delete`: deletes archived letters.

use std::ops::ControlFlow;

use clap::{ArgGroup, Args};
use serde_json::json;

use super::{nothing_matched, table};
use crate::context::{Context, Ending};
use crate::dlq::filter::quoted;
use crate::dlq::selection::Selection;
use crate::dlq::stopped::Stopped;
use crate::error::Result;
use crate::operator;
use crate::stop::StopSignal;
use crate::terminal::{Progress, Window, command_lines, counted, json_line};

/// How many letters a dry run shows.
const SAMPLE: u64 = 5;

/// Delete archived letters
///
/// Without --yes this is a dry run, for letters given by --id too. Deleted letters cannot be
/// restored. The audit log keeps the conditions and the number of letters.
#[derive(Args, Debug)]
#[command(
    group(ArgGroup::new("which").required(true)),
    override_usage = "redrive dlq archive delete <QUEUE | --id ID...> [CONDITION...] [OPTIONS]",
    before_help = "\
Examples:
  redrive dlq archive delete orders 'age>730d' --reason 'retention policy' --yes
  redrive dlq archive delete --id 42 --yes
",
    after_help = "\
To delete everything about a person or tenant, see `redrive erase --help`. Ctrl-C stops
after the current batch of 2,000 letters; the exit code is 1 then, and if nothing matches."
)]
pub(super) struct DeleteArchived {
    #[command(flatten)]
    selection: Selection,
    /// The reason, for the audit log.
    #[arg(long, help_heading = "Action", value_name = "TEXT")]
    reason: Option<String>,
    /// Change nothing; count the letters.
    #[arg(long, help_heading = "Action", conflicts_with = "yes")]
    dry_run: bool,
    /// Delete all letters that match.
    #[arg(long, help_heading = "Action")]
    yes: bool,
}

impl DeleteArchived {
    pub(super) fn run(&self, cx: &mut Context<'_>) -> Result<Ending> {
        let filter = self.selection.letters()?;
        let db = cx.database()?;
        let total = self.selection.limited(db.dlq().count_archived(&filter)?);
        if cx.global.json && !self.yes {
            json_line(
                cx.out,
                &json!({ "dry_run": true, "action": "delete", "letters": total }),
            )?;
        }
        if total == 0 {
            if cx.global.json && self.yes {
                json_line(cx.out, &json!({ "action": "delete", "letters": 0 }))?;
            }
            return Ok(nothing_matched(&filter, cx));
        }
        if !self.yes {
            if !cx.global.json {
                writeln!(
                    cx.out,
                    "{} would be deleted from the archive, which cannot be undone.\n",
                    counted(total, "letter")
                )?;
                table(&db.dlq().archived(&filter.limit(SAMPLE.min(total)))?).write(cx.out)?;
                let words = self.selection.words();
                let reason = self.reason.as_deref();
                let reason = reason.map(|reason| format!(" --reason {}", quoted(reason)));
                let reason = reason.unwrap_or_default();
                let command = format!("redrive dlq archive delete {words}{reason} --yes");
                writeln!(
                    cx.out,
                    "\nNothing was changed. To act:\n{}",
                    command_lines("  ", &command, Window::of_stdout().columns())
                )?;
            }
            return Ok(Ending::Done);
        }
        let mut stop = StopSignal::listen()?;
        let progress = Progress::of("deleting", total);
        let operator = operator::current(self.reason.as_deref());
        let (mut deleted, mut course) = (0, ControlFlow::Continue(()));
        let done = db
            .dlq()
            .delete_archived_while(&filter, &operator, |so_far| {
                deleted = so_far;
                progress.at(deleted);
                course = stop.check();
                course
            });
        drop(progress);
        let stopped = Stopped {
            done: deleted,
            total,
            participle: "deleted",
            undo: (deleted > 0).then(|| "deleted letters cannot be restored".to_owned()),
        };
        done.inspect_err(|_| stopped.say_after_error(cx))?;
        if cx.global.json {
            json_line(cx.out, &json!({ "action": "delete", "letters": deleted }))?;
        } else {
            writeln!(cx.out, "{} deleted", counted(deleted, "letter"))?;
        }
        if course.is_break() && deleted < total {
            stopped.say(cx)?;
            return Ok(Ending::NothingMatched);
        }
        Ok(Ending::Done)
    }
}
