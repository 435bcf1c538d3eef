//! `redrive dlq policies`: what is redriven by itself.

mod listed;
mod set;

use clap::{Args, Subcommand};
use redrive::PolicyMode;
use serde_json::json;

use crate::args::Arguments;
use crate::connect::{self, Patience};
use crate::error::Result;
use crate::render::json_line;
use crate::{Ending, Streams, person};

/// Redrive letters by themselves: at regular ticks, a few of the oldest.
///
/// The workers run the policies, one process at a time; nothing else has to be started.
#[derive(Args, Debug)]
pub(crate) struct Policies {
    #[command(subcommand)]
    act: Act,
}

#[derive(Debug, Subcommand)]
enum Act {
    List(listed::List),
    Set(set::Set),
    Remove(Remove),
    Pause(Pause),
    Resume(Resume),
}

/// Remove a policy. What it sent back stays where it is.
#[derive(Args, Debug)]
#[command(after_help = "\
Example:
  redrive dlq policies remove nightly --why 'the partner is gone'")]
struct Remove {
    /// The policy.
    name: String,
    /// Why, for the audit.
    #[arg(long)]
    why: Option<String>,
}

/// Pause a policy: it has no ticks until it is resumed.
#[derive(Args, Debug)]
#[command(after_help = "\
Example:
  redrive dlq policies pause nightly --why 'deploy at ten'")]
struct Pause {
    /// The policy.
    name: String,
    /// Why, for the audit.
    #[arg(long)]
    why: Option<String>,
}

/// Let a policy act, whether it was paused or in a dry run.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  redrive dlq policies resume nightly
  redrive dlq policies resume nightly --dry-run")]
struct Resume {
    /// The policy.
    name: String,
    /// Send nothing back: tell how many letters it would be.
    #[arg(long)]
    dry_run: bool,
    /// Why, for the audit.
    #[arg(long)]
    why: Option<String>,
}

impl Policies {
    pub(crate) fn run(&self, arguments: &Arguments, io: &mut Streams<'_>) -> Result<Ending> {
        match &self.act {
            Act::List(command) => command.run(arguments, io),
            Act::Set(command) => command.run(arguments, io),
            Act::Remove(Remove { name, why }) => {
                let db = connect::database(arguments, Patience::Minute, io)?;
                let found = db.remove_policy(name, &person::act(why.as_deref()))?;
                tell(found, name, "removed", arguments, io)
            }
            Act::Pause(Pause { name, why }) => {
                let mode = PolicyMode::Paused;
                turn(name, mode, why.as_deref(), "paused", arguments, io)
            }
            Act::Resume(Resume { name, dry_run, why }) => {
                let (mode, word) = match dry_run {
                    true => (PolicyMode::DryRun, "in a dry run"),
                    false => (PolicyMode::Active, "active"),
                };
                turn(name, mode, why.as_deref(), word, arguments, io)
            }
        }
    }
}

fn turn(
    name: &str,
    mode: PolicyMode,
    why: Option<&str>,
    word: &str,
    arguments: &Arguments,
    io: &mut Streams<'_>,
) -> Result<Ending> {
    let db = connect::database(arguments, Patience::Minute, io)?;
    let found = db.set_policy_mode(name, mode, &person::act(why))?;
    tell(found, name, word, arguments, io)
}

fn tell(
    found: bool,
    name: &str,
    word: &str,
    arguments: &Arguments,
    io: &mut Streams<'_>,
) -> Result<Ending> {
    if !found {
        io.say(format!("there is no policy `{name}`"));
        return Ok(Ending::NothingMatched);
    }
    if arguments.json {
        json_line(io.out, &json!({ "policy": name, "now": word }))?;
    } else {
        let name = crate::render::one_line(name);
        writeln!(io.out, "the policy `{name}` is {word}")?;
    }
    Ok(Ending::Done)
}
