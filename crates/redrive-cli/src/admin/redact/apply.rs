//! `redrive redact apply`: applies the redactions to existing letters.

use crate::batches::{Batches, Undo};
use crate::dry_run::DryRun;
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
            let dry_run = DryRun::of_letters("redact", letters, vec!["--yes"]);
            let letters = counted(letters, "letter");
            let heading = format!("{letters} would be redacted, which cannot be undone.");
            return dry_run.show(&heading, || Ok(None), cx);
        }
        let batches = Batches {
            noun: "letter",
            action: "redact",
            progressive: "redacting",
            participle: "redacted",
            undo: Undo::Hint("repeat the command for the others; a redaction cannot be undone"),
        };
        let operator = self.confirm.reason.operator();
        batches.count(letters, cx, |go_on| {
            let apply = |redacted: u64| go_on(redacted.into());
            db.dlq().redactions().apply_while(&filter, &operator, apply)
        })
    }
}
