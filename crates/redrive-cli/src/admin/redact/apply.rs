//! `redrive redact apply`: applies the redactions to existing letters.

use crate::batches::{Batches, Undo};
use crate::prelude::*;

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
    #[command(flatten)]
    words: Words,
    #[command(flatten)]
    confirm: Confirm,
}

impl ApplyRedactions {
    pub(super) fn run(&self, cx: &mut Context<'_>) -> Result<Ending> {
        let filter = self.words.letters()?;
        let db = cx.database()?;
        let letters = db.dlq().redactions().preview(&filter)?;
        if letters == 0 {
            cx.no_change("redact", "letters", !self.confirm.yes)?;
            return cx.nothing(
                "no letter would change: its redactions apply already, or there are none",
            );
        }
        if !self.confirm.yes {
            cx.print(
                &json!({ "dry_run": true, "action": "redact", "letters": letters }),
                format!(
                    "{} would be redacted, which cannot be undone.",
                    counted(letters, "letter")
                ),
            )?;
            return match cx.global.json {
                true => Ok(Ending::Done),
                false => cx.propose(&["--yes"]),
            };
        }
        let batches = Batches {
            noun: "letter",
            progressive: "redacting",
            participle: "redacted",
            total: letters,
            undo: Undo::Hint("repeat the command for the others; a redaction cannot be undone"),
        };
        let operator = self.confirm.reason.operator();
        batches.count("redact", cx, |go_on| {
            let apply = |redacted: u64| go_on(redacted.into());
            db.dlq().redactions().apply_while(&filter, &operator, apply)
        })
    }
}
