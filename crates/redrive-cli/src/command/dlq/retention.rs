//! `redrive dlq retention`: how long letters are kept.

use std::time::Duration;

use clap::{Args, Subcommand};
use redrive::{LetterState, Retention as Rule, RetentionAction};
use serde_json::json;

use crate::args::Arguments;
use crate::connect::{self, Patience};
use crate::duration::{self, short};
use crate::error::Result;
use crate::render::json_line;
use crate::table::{Column, Table};
use crate::{Ending, Streams, person};

/// Say how long letters are kept, and what becomes of them then.
///
/// Without a rule a letter is kept for ever. The workers do what the rules say, and so does
/// `redrive prune`.
#[derive(Args, Debug)]
pub(crate) struct Retention {
    #[command(subcommand)]
    act: Act,
}

#[derive(Debug, Subcommand)]
enum Act {
    List(List),
    Set(Set),
    Remove(Remove),
}

/// List the rules. `redrive prune --dry-run` counts what they would take now.
#[derive(Args, Debug)]
#[command(after_help = "\
Example:
  redrive dlq retention list")]
struct List {}

/// Set the rule for the letters of a state, in every queue or in one.
///
/// Letters that wait for somebody (open, quarantined) are archived; to have them deleted, say so
/// with --even-open.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  redrive dlq retention set recovered 30d
  redrive dlq retention set open 365d archive --queue orders --why 'GDPR 17'")]
struct Set {
    /// recovered, discarded, open or quarantined.
    state: LetterState,
    /// How long they are kept in this state: 12h, 30d, 365d.
    #[arg(value_parser = duration::parse, allow_hyphen_values = true)]
    keep: Duration,
    /// What becomes of them then: delete or archive.
    #[arg(default_value = "delete")]
    action: RetentionAction,
    /// Only in this queue, where it goes before the rule for every queue.
    #[arg(long)]
    queue: Option<String>,
    /// Delete letters although they wait for somebody.
    #[arg(long)]
    even_open: bool,
    /// Why, for the audit.
    #[arg(long)]
    why: Option<String>,
}

/// Remove a rule: its letters are kept for ever, or as the rule for every queue says.
#[derive(Args, Debug)]
#[command(after_help = "\
Example:
  redrive dlq retention remove open --queue orders")]
struct Remove {
    /// The state of the rule.
    state: LetterState,
    /// The queue of the rule; without it, the rule for every queue.
    #[arg(long)]
    queue: Option<String>,
    /// Why, for the audit.
    #[arg(long)]
    why: Option<String>,
}

impl Retention {
    pub(crate) fn run(&self, arguments: &Arguments, io: &mut Streams<'_>) -> Result<Ending> {
        match &self.act {
            Act::List(List {}) => list(arguments, io),
            Act::Set(command) => command.run(arguments, io),
            Act::Remove(command) => command.run(arguments, io),
        }
    }
}

fn list(arguments: &Arguments, io: &mut Streams<'_>) -> Result<Ending> {
    let rules = connect::database(arguments, Patience::Minute, io)?.retention()?;
    if rules.is_empty() {
        io.say("there is no rule: letters are kept until they are pruned");
        return Ok(Ending::NothingMatched);
    }
    if arguments.json {
        for rule in &rules {
            json_line(io.out, &object(rule))?;
        }
        return Ok(Ending::Done);
    }
    let mut table = Table::new([
        Column::Text("QUEUE"),
        Column::Text("STATE"),
        Column::Number("KEEP"),
        Column::Text("THEN"),
    ]);
    for rule in &rules {
        table.row(cells(rule));
    }
    table.write(io.out)?;
    Ok(Ending::Done)
}

/// A rule in the cells of a table: queue, state, how long, what then.
pub(crate) fn cells(rule: &Rule) -> [String; 4] {
    [
        rule.for_queue().unwrap_or("(every)").to_owned(),
        rule.state().to_string(),
        short(rule.keep()),
        rule.action().to_string(),
    ]
}

/// A rule as JSON.
pub(crate) fn object(rule: &Rule) -> serde_json::Value {
    json!({
        "queue": rule.for_queue(),
        "state": rule.state().as_str(),
        "keep_ms": rule.keep().as_millis(),
        "action": rule.action().as_str(),
    })
}

impl Set {
    fn run(&self, arguments: &Arguments, io: &mut Streams<'_>) -> Result<Ending> {
        let mut rule = match self.action {
            RetentionAction::Archive => Rule::archive(self.state, self.keep),
            RetentionAction::Delete | _ => Rule::delete(self.state, self.keep),
        };
        if let Some(queue) = &self.queue {
            rule = rule.queue(queue);
        }
        if self.even_open {
            rule = rule.even_open();
        }
        let db = connect::database(arguments, Patience::Minute, io)?;
        db.set_retention(&rule, &person::act(self.why.as_deref()))?;
        if arguments.json {
            json_line(io.out, &object(&rule))?;
        } else {
            let [queue, state, keep, action] = cells(&rule);
            writeln!(
                io.out,
                "queue {}: {state} letters are kept for {keep}; then: {action}",
                crate::render::one_line(&queue)
            )?;
        }
        Ok(Ending::Done)
    }
}

impl Remove {
    fn run(&self, arguments: &Arguments, io: &mut Streams<'_>) -> Result<Ending> {
        let db = connect::database(arguments, Patience::Minute, io)?;
        let act = person::act(self.why.as_deref());
        if !db.remove_retention(self.queue.as_deref(), self.state, &act)? {
            io.say(format!("there is no such rule for {} letters", self.state));
            return Ok(Ending::NothingMatched);
        }
        if arguments.json {
            json_line(
                io.out,
                &json!({ "queue": self.queue, "state": self.state.as_str(), "removed": true }),
            )?;
        } else {
            writeln!(io.out, "the rule for {} letters is gone", self.state)?;
        }
        Ok(Ending::Done)
    }
}
