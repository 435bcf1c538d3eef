//! `redrive dlq policies`: automatic redrives.

mod list;
mod backlog;
mod set;

use clap::Args;
use redrive::dlq::PolicyMode;
use serde_json::{Value, json};

use crate::context::{Context, Ending};
use crate::error::Result;
use crate::operator;
use crate::subcommands::subcommands;
use crate::terminal::one_line;

subcommands! {
    /// Redrive letters automatically at regular intervals
    ///
    /// At each tick a policy redrives its oldest letters. The workers run the policies, one process at
    /// a time; no other process is needed.
    pub(super) enum PoliciesCommand {
        List(list::ListPolicies) = Reader,
        Set(set::SetPolicy) = Operator,
        /// Remove a policy; jobs that it redrove are not affected
        #[command(before_help = "Example:\n  redrive dlq policies remove nightly --reason 'the partner left'\n")]
        Remove(ChangePolicy).remove = Operator,
        /// Pause a policy until it is resumed
        #[command(before_help = "Example:\n  redrive dlq policies pause nightly --reason 'deploy at ten'\n")]
        Pause(ChangePolicy).pause = Operator,
        Resume(ResumePolicy) = Operator,
    }
}

/// A policy, and the reason for its new state.
#[derive(Args, Debug)]
#[group(skip)]
pub(crate) struct ChangePolicy {
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
pub(crate) struct ResumePolicy {
    #[command(flatten)]
    change: ChangePolicy,
    /// Redrive nothing; log how many letters each tick would redrive.
    #[arg(long)]
    dry_run: bool,
}

impl ChangePolicy {
    fn remove(&self, cx: &mut Context<'_>) -> Result<Ending> {
        let operator = operator::current(self.reason.as_deref());
        let exists = cx
            .database()?
            .dlq()
            .policies()
            .remove(&self.name, &operator)?;
        self.report(
            exists,
            "removed",
            &json!({ "id": self.name, "removed": true }),
            cx,
        )
    }

    fn pause(&self, cx: &mut Context<'_>) -> Result<Ending> {
        self.set_mode(PolicyMode::Paused, "paused", cx)
    }

    fn set_mode(&self, mode: PolicyMode, state: &str, cx: &mut Context<'_>) -> Result<Ending> {
        let operator = operator::current(self.reason.as_deref());
        let db = cx.database()?;
        let exists = db.dlq().policies().set_mode(&self.name, mode, &operator)?;
        let json = json!({ "id": self.name, "mode": mode.as_str() });
        self.report(exists, state, &json, cx)
    }

    fn report(
        &self,
        exists: bool,
        state: &str,
        json: &Value,
        cx: &mut Context<'_>,
    ) -> Result<Ending> {
        let name = one_line(&self.name);
        match exists {
            true => cx.print(json, format!("policy `{name}` is {state}")),
            false => cx.nothing(format!("policy `{name}` does not exist")),
        }
    }
}

impl ResumePolicy {
    fn run(&self, cx: &mut Context<'_>) -> Result<Ending> {
        match self.dry_run {
            true => self.change.set_mode(PolicyMode::DryRun, "in a dry run", cx),
            false => self.change.set_mode(PolicyMode::Active, "active", cx),
        }
    }
}
