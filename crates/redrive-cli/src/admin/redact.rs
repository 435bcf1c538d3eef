//! `redrive redact`: removes confidential data from letters when they die.

use clap::ArgGroup;
use redrive::dlq::{Redaction, RedactionId};

use crate::batches::{Batches, Undo};
use crate::bulk::{Changed, Found};
use crate::prelude::*;

subcommands! {
    /// List, add, remove and apply redactions: data that letters must not keep
    ///
    /// A redaction applies to every letter that dies or is captured from then on. A letter whose payload
    /// was redacted goes back only with --force, or after an edit replaced the redacted values. `redact
    /// apply` redacts existing letters.
    pub(crate) enum RedactCommand {
        /// List the redactions
        #[command(before_help = "Example:\n  redrive redact list\n")]
        List(Plain).run(list),
        Add(AddRedaction),
        Apply(ApplyRedactions),
        Remove(RemoveRedaction),
    }
}

/// Redact payload values by path, or parts of texts by pattern
#[derive(Args, Debug)]
#[command(
    group(ArgGroup::new("what").required(true).multiple(true)),
    before_help = "\
Examples:
  redrive redact add --kind charge --path /card/number --path '/refunds/*/card'
  redrive redact add --pattern '\\d{13,19}' --reason 'no card numbers in errors'
"
)]
pub(crate) struct AddRedaction {
    /// Only letters of this queue.
    #[arg(long)]
    queue: Option<String>,
    /// Only letters of this kind.
    #[arg(long)]
    kind: Option<String>,
    /// JSON pointer to a payload value, such as /card/number; repeatable. The part * stands for
    /// every element of an array and every member of an object.
    #[arg(long = "path", value_name = "POINTER", group = "what")]
    paths: Vec<String>,
    /// PostgreSQL regular expression for messages, details and headers; repeatable.
    #[arg(
        long = "pattern",
        value_name = "REGEX",
        group = "what",
        allow_hyphen_values = true
    )]
    patterns: Vec<String>,
    #[command(flatten)]
    reason: Reason,
}

/// Remove a redaction; redacted data stays redacted
#[derive(Args, Debug)]
#[command(before_help = "\
Example:
  redrive redact remove 3
")]
pub(crate) struct RemoveRedaction {
    /// The id of the redaction.
    id: i64,
    #[command(flatten)]
    reason: Reason,
}

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

fn list(cx: &mut Context<'_>) -> Result<Ending> {
    let redactions = cx.database()?.dlq().redactions().list()?;
    let table = table!((id, redaction) in &redactions => {
        Number "ID" => id,
        Text "QUEUE" => redaction.queue.as_deref().unwrap_or("(every)"),
        Name "KIND" => redaction.kind.as_deref().unwrap_or("(every)"),
        Text "PATHS" => redaction.paths.join(" "),
        Text "PATTERNS" => redaction.patterns.join(" "),
    });
    cx.list(
        "there are no redactions",
        &redactions,
        |(id, redaction)| redaction_json(*id, redaction),
        &table,
    )
}

fn redaction_json(id: RedactionId, redaction: &Redaction) -> impl Serialize {
    object!(redaction => id = id.get(), queue, kind, paths, patterns)
}

impl AddRedaction {
    fn run(&self, cx: &mut Context<'_>) -> Result<Ending> {
        let redaction = Redaction::new()
            .with(self.queue.as_ref(), Redaction::queue)
            .with(self.kind.as_ref(), Redaction::kind);
        let redaction = self.paths.iter().fold(redaction, Redaction::path);
        let redaction = self.patterns.iter().fold(redaction, Redaction::pattern);
        let db = cx.database()?;
        let operator = self.reason.operator();
        let id = db.dlq().redactions().add(&redaction, &operator)?;
        cx.print(&redaction_json(id, &redaction), id)
    }
}

impl RemoveRedaction {
    fn run(&self, cx: &mut Context<'_>) -> Result<Ending> {
        let id = RedactionId::new(self.id);
        let db = cx.database()?;
        if !db.dlq().redactions().remove(id, &self.reason.operator())? {
            return cx.nothing(format!("redaction {id} does not exist"));
        }
        cx.print(
            &json!({ "id": self.id, "removed": true }),
            format!("removed redaction {id}"),
        )
    }
}

const APPLY: Batches = Batches::of_letters(
    "redact",
    "redacted",
    Undo::Hint("repeat the command for the others; a redaction cannot be undone"),
);

impl ApplyRedactions {
    fn run(&self, cx: &mut Context<'_>) -> Result<Ending> {
        let (filter, confirm, db) = (self.words.letters()?, &self.confirm, &cx.database()?);
        let letters = db.dlq().redactions().preview(&filter)?;
        let found = Found {
            noun: "letter".to_owned(),
            matching: letters,
            affected: letters,
            note: ", which cannot be undone".to_owned(),
            ..Found::default()
        };
        found.change(
            APPLY,
            (!confirm.yes).then(|| vec![confirm.to_act()]),
            cx,
            |db| -> redrive::Result<Changed> {
                let operator = confirm.reason.operator();
                db.dlq().redactions().apply(&filter, &operator)?;
                Ok(Changed::default())
            },
            |cx| {
                cx.nothing(
                    "no letter would change: its redactions apply already, or there are none",
                )
            },
        )
    }
}
