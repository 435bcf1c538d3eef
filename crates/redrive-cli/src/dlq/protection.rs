//! `redrive dlq protection`: who may redrive letters of a queue, and which runs need an approval.

use clap::{ArgGroup, Args, Subcommand};
use redrive::dlq::{Approver, Protection};
use serde_json::json;

use crate::context::{Context, Ending};
use crate::error::Result;
use crate::operator;
use crate::profession::Profession;
use crate::terminal::{Column, Table, grouped, json_line};

/// List, set and remove protections: who may redrive, and which runs need an approval
///
/// The database enforces a protection whenever letters are sent back. Only the owner of the schema can
/// change it.
#[derive(Args, Debug)]
pub(super) struct ProtectionCommand {
    #[command(subcommand)]
    subcommand: ProtectionSubcommand,
}

#[derive(Debug, Subcommand)]
enum ProtectionSubcommand {
    /// List the protected queues
    #[command(before_help = "Example:\n  redrive dlq protection list\n")]
    List,
    Set(SetProtection),
    Remove(RemoveProtection),
}

/// Set the protection of a queue; an earlier one is replaced
#[derive(Args, Debug)]
#[command(
    group(ArgGroup::new("what").required(true).multiple(true)),
    before_help = "\
Examples:
  redrive dlq protection set payments --approve-above 100
  redrive dlq protection set payments --approve-above 0 --other-role --role oncall
"
)]
struct SetProtection {
    /// Queue of the letters.
    queue: String,
    /// A second operator must approve a run with more letters than this.
    #[arg(long, value_name = "LETTERS", group = "what")]
    approve_above: Option<u64>,
    /// The approval must come from another database role, not only from another operator name.
    #[arg(long, requires = "approve_above")]
    other_role: bool,
    /// Only this database role and its members may redrive; repeatable.
    #[arg(long = "role", value_name = "ROLE", group = "what")]
    roles: Vec<String>,
    /// The reason, for the audit log.
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
}

/// Remove the protection of a queue
#[derive(Args, Debug)]
#[command(before_help = "Example:\n  redrive dlq protection remove payments\n")]
struct RemoveProtection {
    /// Queue of the letters.
    queue: String,
    /// The reason, for the audit log.
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
}

impl ProtectionCommand {
    /// The role that the command needs.
    pub(super) fn profession(&self) -> Profession {
        match self.subcommand {
            ProtectionSubcommand::List => Profession::Reader,
            ProtectionSubcommand::Set(_) | ProtectionSubcommand::Remove(_) => Profession::Owner,
        }
    }

    pub(super) fn run(&self, cx: &mut Context<'_>) -> Result<Ending> {
        match &self.subcommand {
            ProtectionSubcommand::List => list(cx),
            ProtectionSubcommand::Set(command) => command.run(cx),
            ProtectionSubcommand::Remove(command) => command.run(cx),
        }
    }
}

impl SetProtection {
    fn run(&self, cx: &mut Context<'_>) -> Result<Ending> {
        let mut protection = Protection::new(&self.queue);
        if let Some(above) = self.approve_above {
            protection = protection.approve_above(above);
        }
        if self.other_role {
            protection = protection.approver(Approver::OtherRole);
        }
        for role in &self.roles {
            protection = protection.role(role);
        }
        let operator = operator::current(self.reason.as_deref());
        cx.database()?.dlq().protect(&protection, &operator)?;
        match cx.global.json {
            true => json_line(cx.out, &protection_json(&protection))?,
            false => writeln!(cx.out, "queue `{}` is protected", self.queue)?,
        }
        Ok(Ending::Done)
    }
}

impl RemoveProtection {
    fn run(&self, cx: &mut Context<'_>) -> Result<Ending> {
        let operator = operator::current(self.reason.as_deref());
        if !cx.database()?.dlq().unprotect(&self.queue, &operator)? {
            cx.say(format!("queue `{}` is not protected", self.queue));
            return Ok(Ending::NothingMatched);
        }
        match cx.global.json {
            true => json_line(cx.out, &json!({ "queue": self.queue, "removed": true }))?,
            false => writeln!(cx.out, "queue `{}` is no longer protected", self.queue)?,
        }
        Ok(Ending::Done)
    }
}

fn list(cx: &mut Context<'_>) -> Result<Ending> {
    let protections = cx.database()?.dlq().protections()?;
    if protections.is_empty() {
        cx.say("no queue is protected");
        return Ok(Ending::NothingMatched);
    }
    if cx.global.json {
        for protection in &protections {
            json_line(cx.out, &protection_json(protection))?;
        }
        return Ok(Ending::Done);
    }
    let mut table = Table::new([
        Column::Text("QUEUE"),
        Column::Number("APPROVAL ABOVE"),
        Column::Word("APPROVED BY"),
        Column::Text("ROLES"),
    ]);
    for protection in &protections {
        let approver = match (protection.approve_above, protection.approver) {
            (None, _) => "",
            (Some(_), Approver::OtherRole) => "another role",
            (Some(_), _) => "another operator",
        };
        let above = protection.approve_above.map(grouped);
        table.row([
            protection.queue.clone(),
            above.unwrap_or_default(),
            approver.to_owned(),
            protection.roles.join(", "),
        ]);
    }
    table.write(cx.out)?;
    Ok(Ending::Done)
}

fn protection_json(protection: &Protection) -> serde_json::Value {
    json!({
        "queue": protection.queue,
        "approve_above": protection.approve_above,
        "other_role": protection.approver == Approver::OtherRole,
        "roles": protection.roles,
    })
}
