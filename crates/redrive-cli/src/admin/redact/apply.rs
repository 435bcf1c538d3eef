//! `redrive redact apply`: applies the redactions to existing letters.

use std::ops::ControlFlow;

use clap::Args;
use redrive::Database;
use redrive::dlq::LetterFilter;
use serde_json::json;

use crate::context::{Context, Ending};
use crate::dlq::{FilterArgs, Stopped};
use crate::error::Result;
use crate::operator;
use crate::stop::StopSignal;
use crate::terminal::{Progress, counted, json_line};

/// Apply the redactions to letters that exist already
///
/// Without --yes this is a dry run. The earlier payloads of edited letters and the texts of failure
/// groups are redacted too. This cannot be undone. The archive does not change; see `redrive erase`.
#[derive(Args, Debug)]
#[command(
    before_help = "\
Examples:
  redrive redact apply
  redrive redact apply orders --reason 'card data' --yes
",
    after_help = "\
Ctrl-C stops after the current batch of 500 letters. The exit code is 1 then, and
if nothing would change."
)]
pub(super) struct ApplyRedactions {
    /// Letters of this queue [default: every queue]. A condition may take its place.
    #[arg(help_heading = "Selection")]
    queue: Option<String>,
    #[command(flatten)]
    filter: FilterArgs,
    /// The reason, for the letters and the audit log.
    #[arg(long, help_heading = "Action", value_name = "TEXT")]
    reason: Option<String>,
    /// Change nothing; count the letters.
    #[arg(long, help_heading = "Action", conflicts_with = "yes")]
    dry_run: bool,
    /// Redact all letters that match.
    #[arg(long, help_heading = "Action")]
    yes: bool,
}

impl ApplyRedactions {
    pub(super) fn run(&self, cx: &mut Context<'_>) -> Result<Ending> {
        let filter = self.filter.letters(self.queue.as_deref())?;
        let db = cx.database()?;
        let letters = db.dlq().redactions().preview(&filter)?;
        if letters == 0 && cx.global.json {
            json_line(
                cx.out,
                &json!({ "dry_run": !self.yes, "action": "redact", "letters": 0 }),
            )?;
        }
        if letters == 0 {
            cx.say("no letter would change: its redactions apply already, or there are none");
            return Ok(Ending::NothingMatched);
        }
        if self.yes {
            return self.apply(&filter, letters, &db, cx);
        }
        if cx.global.json {
            json_line(
                cx.out,
                &json!({ "dry_run": true, "action": "redact", "letters": letters }),
            )?;
            return Ok(Ending::Done);
        }
        writeln!(
            cx.out,
            "{} would be redacted, which cannot be undone.\n\
             Nothing was changed. To act, repeat the command with --yes.",
            counted(letters, "letter")
        )?;
        Ok(Ending::Done)
    }

    /// Redacts the letters in batches, until a signal arrives.
    fn apply(
        &self,
        filter: &LetterFilter,
        total: u64,
        db: &Database,
        cx: &mut Context<'_>,
    ) -> Result<Ending> {
        let mut stop = StopSignal::listen()?;
        let progress = Progress::of("redacting", total);
        let operator = operator::current(self.reason.as_deref());
        let (mut redacted, mut course) = (0, ControlFlow::Continue(()));
        let done = db
            .dlq()
            .redactions()
            .apply_while(filter, &operator, |so_far| {
                redacted = so_far;
                progress.at(redacted);
                course = stop.check();
                course
            });
        drop(progress);
        let stopped = Stopped {
            done: redacted,
            total,
            participle: "redacted",
            undo: Some(
                "repeat the command for the others; a redaction cannot be undone".to_owned(),
            ),
        };
        done.inspect_err(|_| stopped.say_after_error(cx))?;
        if cx.global.json {
            json_line(cx.out, &json!({ "action": "redact", "letters": redacted }))?;
        } else {
            writeln!(cx.out, "{} redacted", counted(redacted, "letter"))?;
        }
        if course.is_break() {
            stopped.say(cx)?;
            return Ok(Ending::NothingMatched);
        }
        Ok(Ending::Done)
    }
}
