//! `redrive dlq protection`: who may redrive letters of a queue, and which runs need an approval.

use clap::ArgGroup;
use redrive::dlq::Protection;

use crate::prelude::*;

subcommands! {
    /// List, set and remove protections: who may redrive, and which runs need an approval
    ///
    /// The database enforces a protection whenever letters are sent back. A run that was created before goes
    /// on: cancel it. Only the owner of the schema can change a protection.
    pub(super) enum ProtectionCommand {
        /// List the protected queues
        #[command(before_help = "Example:\n  redrive dlq protection list\n")]
        List(Plain).run(list),
        Set(SetProtection),
        Remove(RemoveProtection),
    }
}

/// Set the protection of a queue; an earlier one is replaced
#[derive(Args, Debug)]
#[command(
    group(ArgGroup::new("what").required(true).multiple(true)),
    before_help = "\
Examples:
  redrive dlq protection set payments --approve-above 100
  redrive dlq protection set payments --approve-above 0 --role ops
"
)]
pub(crate) struct SetProtection {
    /// Queue of the letters.
    queue: String,
    /// A second operator must approve a run with more letters than this.
    #[arg(long, value_name = "LETTERS", group = "what")]
    approve_above: Option<u64>,
    /// Only this database role and its members may redrive; repeatable.
    #[arg(long = "role", value_name = "ROLE", group = "what")]
    roles: Vec<String>,
    #[command(flatten)]
    reason: Reason,
}

/// Remove the protection of a queue
#[derive(Args, Debug)]
#[command(before_help = "Example:\n  redrive dlq protection remove payments\n")]
pub(crate) struct RemoveProtection {
    /// Queue of the letters.
    queue: String,
    #[command(flatten)]
    reason: Reason,
}

impl SetProtection {
    fn run(&self, cx: &mut Context<'_>) -> Result<Ending> {
        let protection =
            Protection::new(&self.queue).with(self.approve_above, Protection::approve_above);
        let protection = self.roles.iter().fold(protection, Protection::role);
        let operator = self.reason.operator();
        cx.database()?.dlq().protect(&protection, &operator)?;
        cx.print(
            &protection_json(&protection),
            format!("queue `{}` is protected", one_line(&self.queue)),
        )
    }
}

impl RemoveProtection {
    fn run(&self, cx: &mut Context<'_>) -> Result<Ending> {
        let operator = self.reason.operator();
        let queue = one_line(&self.queue);
        if !cx.database()?.dlq().unprotect(&self.queue, &operator)? {
            return cx.nothing(format!("queue `{queue}` is not protected"));
        }
        cx.print(
            &json!({ "queue": self.queue, "removed": true }),
            format!("queue `{queue}` is no longer protected"),
        )
    }
}

fn list(cx: &mut Context<'_>) -> Result<Ending> {
    let protections = cx.database()?.dlq().protections()?;
    let table = table!(protection in &protections => {
        Text "QUEUE" => protection.queue,
        Number "APPROVAL ABOVE" => protection.approve_above.map(grouped).unwrap_or_default(),
        Text "ROLES" => protection.roles.join(", "),
    });
    cx.list(
        "no queue is protected",
        &protections,
        protection_json,
        &table,
    )
}

fn protection_json(protection: &Protection) -> impl Serialize {
    object!(protection => queue, approve_above, roles)
}
