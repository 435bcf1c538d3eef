//! `redrive redact`: what must not be kept of a letter.

use clap::{ArgGroup, Args, Subcommand};
use redrive::{Redaction, RedactionId};
use serde_json::json;

use crate::args::Arguments;
use crate::connect::{self, Patience};
use crate::error::Result;
use crate::render::json_line;
use crate::table::{Column, Table};
use crate::{Ending, Streams, person};

/// Say what is taken out of letters when they die: card numbers, tokens, names.
///
/// It works on every death from then on, by whichever door, and on no letter that is there. A
/// letter that is redriven goes back without what was taken out.
#[derive(Args, Debug)]
pub(crate) struct Redact {
    #[command(subcommand)]
    act: Act,
}

#[derive(Debug, Subcommand)]
enum Act {
    List(List),
    Add(Add),
    Remove(Remove),
}

/// List what is redacted.
#[derive(Args, Debug)]
#[command(after_help = "\
Example:
  redrive redact list")]
struct List {}

/// Redact more: values of the payload by their paths, parts of texts by patterns.
#[derive(Args, Debug)]
#[command(
    group(ArgGroup::new("what").required(true).multiple(true)),
    after_help = "\
Examples:
  redrive redact add --kind charge --path /card/number --path /card/cvc
  redrive redact add --pattern '\\d{13,19}' --why 'no card numbers in errors'"
)]
struct Add {
    /// Only letters of this queue.
    #[arg(long)]
    queue: Option<String>,
    /// Only letters of this kind.
    #[arg(long)]
    kind: Option<String>,
    /// The value at this JSON pointer into the payload, such as /card/number.
    #[arg(long = "path", value_name = "POINTER", group = "what")]
    paths: Vec<String>,
    /// What matches this regular expression (of PostgreSQL) in messages, details and headers.
    #[arg(
        long = "pattern",
        value_name = "REGEX",
        group = "what",
        allow_hyphen_values = true
    )]
    patterns: Vec<String>,
    /// Why, for the audit.
    #[arg(long)]
    why: Option<String>,
}

/// Remove a redaction. What it redacted stays so.
#[derive(Args, Debug)]
#[command(after_help = "\
Example:
  redrive redact remove 3")]
struct Remove {
    /// Its id, from the list.
    id: i64,
    /// Why, for the audit.
    #[arg(long)]
    why: Option<String>,
}

impl Redact {
    pub(crate) fn run(&self, arguments: &Arguments, io: &mut Streams<'_>) -> Result<Ending> {
        match &self.act {
            Act::List(List {}) => list(arguments, io),
            Act::Add(command) => command.run(arguments, io),
            Act::Remove(command) => command.run(arguments, io),
        }
    }
}

fn list(arguments: &Arguments, io: &mut Streams<'_>) -> Result<Ending> {
    let redactions = connect::database(arguments, Patience::Minute, io)?.redactions()?;
    if redactions.is_empty() {
        io.say("nothing is redacted");
        return Ok(Ending::NothingMatched);
    }
    if arguments.json {
        for (id, redaction) in &redactions {
            json_line(io.out, &object(*id, redaction))?;
        }
        return Ok(Ending::Done);
    }
    let mut table = Table::new([
        Column::Number("ID"),
        Column::Text("QUEUE"),
        Column::Text("KIND"),
        Column::Text("PATHS"),
        Column::Text("PATTERNS"),
    ]);
    for (id, redaction) in &redactions {
        table.row([
            id.to_string(),
            redaction.for_queue().unwrap_or("(every)").to_owned(),
            redaction.for_kind().unwrap_or("(every)").to_owned(),
            redaction.paths().join(" "),
            redaction.patterns().join(" "),
        ]);
    }
    table.write(io.out)?;
    Ok(Ending::Done)
}

fn object(id: RedactionId, redaction: &Redaction) -> serde_json::Value {
    json!({
        "id": id.get(),
        "queue": redaction.for_queue(),
        "kind": redaction.for_kind(),
        "paths": redaction.paths(),
        "patterns": redaction.patterns(),
    })
}

impl Add {
    fn run(&self, arguments: &Arguments, io: &mut Streams<'_>) -> Result<Ending> {
        let mut redaction = Redaction::new();
        if let Some(queue) = &self.queue {
            redaction = redaction.queue(queue);
        }
        if let Some(kind) = &self.kind {
            redaction = redaction.kind(kind);
        }
        redaction = self.paths.iter().fold(redaction, Redaction::path);
        redaction = self.patterns.iter().fold(redaction, Redaction::pattern);
        let db = connect::database(arguments, Patience::Minute, io)?;
        let id = db.add_redaction(&redaction, &person::act(self.why.as_deref()))?;
        if arguments.json {
            json_line(io.out, &object(id, &redaction))?;
        } else {
            writeln!(io.out, "{id}")?;
        }
        Ok(Ending::Done)
    }
}

impl Remove {
    fn run(&self, arguments: &Arguments, io: &mut Streams<'_>) -> Result<Ending> {
        let db = connect::database(arguments, Patience::Minute, io)?;
        let act = person::act(self.why.as_deref());
        if !db.remove_redaction(RedactionId::new(self.id), &act)? {
            io.say(format!("there is no redaction {}", self.id));
            return Ok(Ending::NothingMatched);
        }
        if arguments.json {
            json_line(io.out, &json!({ "id": self.id, "removed": true }))?;
        } else {
            writeln!(io.out, "redaction {} is gone", self.id)?;
        }
        Ok(Ending::Done)
    }
}
