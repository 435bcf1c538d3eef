//! `redrive redact`: removes confidential data from letters when they die.

mod apply;

use clap::{ArgGroup, Args, Subcommand};
use redrive::dlq::{Redaction, RedactionId};
use serde_json::json;

use crate::context::{Context, Ending};
use crate::error::Result;
use crate::operator;
use crate::profession::Profession;
use crate::terminal::{Column, Table, json_line};

/// List, add, remove and apply redactions: data that letters must not keep
///
/// A redaction applies to every letter that dies or is captured from then on. A letter whose payload
/// was redacted goes back only with --force, or after an edit replaced the redacted values. `redact
/// apply` redacts existing letters.
#[derive(Args, Debug)]
pub(crate) struct RedactCommand {
    #[command(subcommand)]
    subcommand: RedactSubcommand,
}

#[derive(Debug, Subcommand)]
enum RedactSubcommand {
    /// List the redactions
    #[command(before_help = "\
Example:
  redrive redact list
")]
    List,
    Add(AddRedaction),
    Apply(apply::ApplyRedactions),
    Remove(RemoveRedaction),
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
struct AddRedaction {
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
    /// Keep the JSON types of payload values: a number becomes 0, not a text.
    #[arg(long, requires = "paths")]
    keep_types: bool,
    /// The reason, for the audit log.
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
}

/// Remove a redaction; redacted data stays redacted
#[derive(Args, Debug)]
#[command(before_help = "\
Example:
  redrive redact remove 3
")]
struct RemoveRedaction {
    /// The id of the redaction.
    id: i64,
    /// The reason, for the audit log.
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
}

impl RedactCommand {
    /// The role that the command needs.
    pub(crate) fn profession(&self) -> Profession {
        match self.subcommand {
            RedactSubcommand::List => Profession::Reader,
            RedactSubcommand::Add(_) | RedactSubcommand::Apply(_) | RedactSubcommand::Remove(_) => {
                Profession::Operator
            }
        }
    }

    pub(crate) fn run(&self, cx: &mut Context<'_>) -> Result<Ending> {
        match &self.subcommand {
            RedactSubcommand::List => list(cx),
            RedactSubcommand::Add(command) => command.run(cx),
            RedactSubcommand::Apply(command) => command.run(cx),
            RedactSubcommand::Remove(command) => command.run(cx),
        }
    }
}

fn list(cx: &mut Context<'_>) -> Result<Ending> {
    let redactions = cx.database()?.dlq().redactions().list()?;
    if redactions.is_empty() {
        cx.say("there are no redactions");
        return Ok(Ending::NothingMatched);
    }
    if cx.global.json {
        for (id, redaction) in &redactions {
            json_line(cx.out, &redaction_json(*id, redaction))?;
        }
        return Ok(Ending::Done);
    }
    let mut table = Table::new([
        Column::Number("ID"),
        Column::Text("QUEUE"),
        Column::Name("KIND"),
        Column::Text("PATHS"),
        Column::Text("PATTERNS"),
        Column::Text("VALUES"),
    ]);
    for (id, redaction) in &redactions {
        table.row([
            id.to_string(),
            redaction.for_queue().unwrap_or("(every)").to_owned(),
            redaction.for_kind().unwrap_or("(every)").to_owned(),
            redaction.paths().join(" "),
            redaction.patterns().join(" "),
            match redaction.keeps_types() {
                true => "of their type".to_owned(),
                false => "[redacted]".to_owned(),
            },
        ]);
    }
    table.write(cx.out)?;
    Ok(Ending::Done)
}

fn redaction_json(id: RedactionId, redaction: &Redaction) -> serde_json::Value {
    json!({
        "id": id.get(),
        "queue": redaction.for_queue(),
        "kind": redaction.for_kind(),
        "paths": redaction.paths(),
        "patterns": redaction.patterns(),
        "keep_types": redaction.keeps_types(),
    })
}

impl AddRedaction {
    fn run(&self, cx: &mut Context<'_>) -> Result<Ending> {
        let mut redaction = Redaction::new();
        if let Some(queue) = &self.queue {
            redaction = redaction.queue(queue);
        }
        if let Some(kind) = &self.kind {
            redaction = redaction.kind(kind);
        }
        redaction = self.paths.iter().fold(redaction, Redaction::path);
        redaction = self.patterns.iter().fold(redaction, Redaction::pattern);
        if self.keep_types {
            redaction = redaction.keep_types();
        }
        let db = cx.database()?;
        let operator = operator::current(self.reason.as_deref());
        let id = db.dlq().redactions().add(&redaction, &operator)?;
        if cx.global.json {
            json_line(cx.out, &redaction_json(id, &redaction))?;
        } else {
            writeln!(cx.out, "{id}")?;
        }
        Ok(Ending::Done)
    }
}

impl RemoveRedaction {
    fn run(&self, cx: &mut Context<'_>) -> Result<Ending> {
        let db = cx.database()?;
        let operator = operator::current(self.reason.as_deref());
        if !db
            .dlq()
            .redactions()
            .remove(RedactionId::new(self.id), &operator)?
        {
            cx.say(format!("redaction {} does not exist", self.id));
            return Ok(Ending::NothingMatched);
        }
        if cx.global.json {
            json_line(cx.out, &json!({ "id": self.id, "removed": true }))?;
        } else {
            writeln!(cx.out, "removed redaction {}", self.id)?;
        }
        Ok(Ending::Done)
    }
}
