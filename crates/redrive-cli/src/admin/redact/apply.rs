//! `redrive redact apply`: applies the redactions to existing letters.

use clap::Args;
use serde_json::json;

use crate::batches::Batches;
use crate::context::{Context, Ending};
use crate::dlq::FilterArgs;
use crate::error::Result;
use crate::operator;
use crate::terminal::{counted, json_line};

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
pub(crate) struct ApplyRedactions {
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
        if letters == 0 {
            if cx.global.json {
                let line = json!({ "dry_run": !self.yes, "action": "redact", "letters": 0 });
                json_line(cx.out, &line)?;
            }
            return cx.nothing(
                "no letter would change: its redactions apply already, or there are none",
            );
        }
        if !self.yes {
            return cx.print(
                &json!({ "dry_run": true, "action": "redact", "letters": letters }),
                format!(
                    "{} would be redacted, which cannot be undone.\n\
                     Nothing was changed. To act, repeat the command with --yes.",
                    counted(letters, "letter")
                ),
            );
        }
        let redact = Batches {
            action: "redact",
            progressive: "redacting",
            participle: "redacted",
            noun: "letter",
            total: letters,
            undo: "repeat the command for the others; a redaction cannot be undone",
        };
        let operator = operator::current(self.reason.as_deref());
        redact.run(cx, |go_on| {
            db.dlq().redactions().apply_while(&filter, &operator, go_on)
        })
    }
}
