//! `redrive dlq policies`: automatic redrives.

mod list;
mod backlog;
mod set;

use clap::{Args, Subcommand};
use redrive::dlq::PolicyMode;
use serde_json::{Value, json};

use crate::context::{Context, Ending};
use crate::error::Result;
use crate::operator;
use crate::profession::Profession;
use crate::terminal::{json_line, one_line};

/// Redrive letters automatically at regular intervals
///
/// At each tick a policy redrives its oldest letters. The workers run the policies, one process at
/// a time; no other process is needed.
#[derive(Args, Debug)]
pub(super) struct PoliciesCommand {
    #[command(subcommand)]
    subcommand: PoliciesSubcommand,
}

#[derive(Debug, Subcommand)]
enum PoliciesSubcommand {
    List(list::ListPolicies),
    Set(set::SetPolicy),
    /// Remove a policy; jobs that it redrove are not affected
    #[command(before_help = "\
Example:
  redrive dlq policies remove nightly --reason 'the partner left'
")]
    Remove(ChangePolicy),
    /// Pause a policy until it is resumed
    #[command(before_help = "\
Example:
  redrive dlq policies pause nightly --reason 'deploy at ten'
")]
    Pause(ChangePolicy),
    Resume(ResumePolicy),
}

/// A policy, and the reason for its new state.
#[derive(Args, Debug)]
#[group(skip)]
struct ChangePolicy {
    /// Name of the policy.
    name: String,
    /// The reason, for the audit log.
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
}

/// Activate a policy that is paused or in a dry run
#[derive(Args, Debug)]
#[command(before_help = "\
Examples:
  redrive dlq policies resume nightly
  redrive dlq policies resume nightly --dry-run
")]
struct ResumePolicy {
    #[command(flatten)]
    change: ChangePolicy,
    /// Redrive nothing; log how many letters each tick would redrive.
    #[arg(long)]
    dry_run: bool,
}

impl PoliciesCommand {
    /// The role that the command needs.
    pub(super) fn profession(&self) -> Profession {
        match self.subcommand {
            PoliciesSubcommand::List(_) => Profession::Reader,
            PoliciesSubcommand::Set(_)
            | PoliciesSubcommand::Remove(_)
            | PoliciesSubcommand::Pause(_)
            | PoliciesSubcommand::Resume(_) => Profession::Operator,
        }
    }

    pub(super) fn run(&self, cx: &mut Context<'_>) -> Result<Ending> {
        match &self.subcommand {
            PoliciesSubcommand::List(command) => command.run(cx),
            PoliciesSubcommand::Set(command) => command.run(cx),
            PoliciesSubcommand::Remove(ChangePolicy { name, reason }) => {
                let operator = operator::current(reason.as_deref());
                let exists = cx.database()?.dlq().policies().remove(name, &operator)?;
                report(
                    exists,
                    name,
                    "removed",
                    &json!({ "id": name, "removed": true }),
                    cx,
                )
            }
            PoliciesSubcommand::Pause(change) => change.run(PolicyMode::Paused, "paused", cx),
            PoliciesSubcommand::Resume(ResumePolicy { change, dry_run }) => match dry_run {
                true => change.run(PolicyMode::DryRun, "in a dry run", cx),
                false => change.run(PolicyMode::Active, "active", cx),
            },
        }
    }
}

impl ChangePolicy {
    fn run(&self, mode: PolicyMode, state: &str, cx: &mut Context<'_>) -> Result<Ending> {
        let operator = operator::current(self.reason.as_deref());
        let exists = cx
            .database()?
            .dlq()
            .policies()
            .set_mode(&self.name, mode, &operator)?;
        let json = json!({ "id": self.name, "mode": mode.as_str() });
        report(exists, &self.name, state, &json, cx)
    }
}

fn report(
    exists: bool,
    name: &str,
    state: &str,
    json: &Value,
    cx: &mut Context<'_>,
) -> Result<Ending> {
    if !exists {
        cx.say(format!("policy `{name}` does not exist"));
        return Ok(Ending::NothingMatched);
    }
    if cx.global.json {
        json_line(cx.out, json)?;
    } else {
        writeln!(cx.out, "policy `{}` is {state}", one_line(name))?;
    }
    Ok(Ending::Done)
}
