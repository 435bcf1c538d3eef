//! `redrive queue groups`: the policy for the groups of a queue, and the groups that a letter holds.

use redrive::{GroupDeath, GroupPolicy, HeldGroup, Queue};

use super::rate_limit::warn_if_unknown;
use crate::dlq::none_in;
use crate::prelude::*;

/// The most held groups in a list.
const MAX_LISTED: u64 = 10_000;

subcommands! {
    /// Order, limit or take turns between the groups of a queue
    pub(crate) enum QueueGroupsCommand {
        Set(SetPolicy),
        Show(ShowPolicy),
        Held(ListHeld),
        Release(ReleaseGroup),
    }
}

/// Set what the groups of a queue mean
#[derive(Args, Debug)]
#[command(
    mut_arg("reason", |reason| reason.required(true)),
    before_help = "\
Examples:
  redrive queue groups set orders ordered --on-death hold --reason 'in sequence'
  redrive queue groups set bills ordered --on-death divert --reason 'one repair'
  redrive queue groups set imports limit=3 --reason 'three imports per customer'
  redrive queue groups set mails fair --reason 'customers take turns'
  redrive queue groups set mails none --reason 'one customer is left'
",
    after_help = "\
ordered: one job of a group at a time, in the order of the ids. limit=N: at most N at a time.
fair: the groups take turns. none: the group of a job is metadata. Waiting jobs are kept."
)]
pub(crate) struct SetPolicy {
    /// Queue.
    queue: String,
    /// Policy: ordered, limit=N, fair or none.
    #[arg(value_parser = policy)]
    policy: GroupPolicy,
    /// Effect of a death on an ordered group: continue; hold until the letter is dealt with; or divert
    /// the jobs behind it to the dead letters [default: continue].
    #[arg(long, value_name = "EFFECT")]
    on_death: Option<GroupDeath>,
    #[command(flatten)]
    reason: Reason,
}

/// Show the policy of a queue
#[derive(Args, Debug)]
#[command(before_help = "Example:\n  redrive queue groups show orders\n")]
pub(crate) struct ShowPolicy {
    /// Queue.
    queue: String,
}

/// List the groups whose jobs wait behind a letter
#[derive(Args, Debug)]
#[command(
    before_help = "Example:\n  redrive queue groups held orders\n",
    after_help = "\
Redrive the letter to run its job first, or discard it to continue without the job. The
exit code is 1 if no letter holds a group."
)]
pub(crate) struct ListHeld {
    /// Queue.
    queue: String,
    /// At most this many groups.
    #[arg(long, value_name = "N", default_value_t = 1000, allow_negative_numbers = true, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    limit: u32,
}

/// Let the jobs of a group continue without the letter that holds it
#[derive(Args, Debug)]
#[command(
    mut_arg("reason", |reason| reason.required(true)),
    before_help = "\
Example:
  redrive queue groups release orders order:42 --reason 'shipped by hand'
",
    after_help = "The letter stays open. The exit code is 1 if no letter holds the group."
)]
pub(crate) struct ReleaseGroup {
    /// Queue.
    queue: String,
    /// Group.
    group: String,
    #[command(flatten)]
    reason: Reason,
}

/// Parses the value of `POLICY`.
fn policy(text: &str) -> std::result::Result<GroupPolicy, String> {
    match (text, text.strip_prefix("limit=").map(str::parse)) {
        ("none", _) => Ok(GroupPolicy::None),
        ("ordered", _) => Ok(GroupPolicy::Ordered(GroupDeath::Continue)),
        ("fair", _) => Ok(GroupPolicy::Fair),
        (_, Some(Ok(limit))) => Ok(GroupPolicy::Limit(limit)),
        _ => Err("expected ordered, limit=N such as limit=3, fair or none".to_owned()),
    }
}

impl SetPolicy {
    fn run(&self, cx: &mut Context<'_>) -> Result<Ending> {
        let queue = cx.queue(&self.queue)?;
        let policy = match (self.policy, self.on_death) {
            (policy, None | Some(GroupDeath::Continue)) => policy,
            (GroupPolicy::Ordered(_), Some(death)) => GroupPolicy::Ordered(death),
            _ => {
                return Err(Error::new(
                    "only an ordered group can be held or diverted: --on-death hold and divert need the policy ordered",
                ));
            }
        };
        queue.set_group_policy(policy, &self.reason.operator())?;
        let undo = |name: &str| format!("groups set --reason TEXT {name} none");
        warn_if_unknown(&queue, undo, cx);
        show(&queue, policy, cx)
    }
}

impl ShowPolicy {
    fn run(&self, cx: &mut Context<'_>) -> Result<Ending> {
        let queue = cx.queue(&self.queue)?;
        show(&queue, queue.group_policy()?, cx)
    }
}

fn show(queue: &Queue, policy: GroupPolicy, cx: &mut Context<'_>) -> Result<Ending> {
    let ordered = |effect| format!("one job of a group runs at a time; {effect}");
    let meaning = match policy {
        GroupPolicy::Ordered(GroupDeath::Hold) => ordered("a letter holds its group"),
        GroupPolicy::Ordered(GroupDeath::Divert) => ordered("jobs behind a letter become letters"),
        GroupPolicy::Ordered(_) => ordered("after a death the next one runs"),
        GroupPolicy::Limit(jobs) => {
            let most = grouped(u64::from(jobs));
            format!("at most {most} jobs of a group run at a time")
        }
        GroupPolicy::Fair => "groups take turns".to_owned(),
        GroupPolicy::None | _ => "groups are metadata".to_owned(),
    };
    let (mode, limit, on_death) = policy.parts();
    let name = queue.name();
    cx.print(
        &json!({ "queue": name, "mode": mode, "limit": limit, "on_death": on_death.as_str() }),
        format!("queue {}: {meaning}", one_line(name)),
    )
}

impl ListHeld {
    fn run(&self, cx: &mut Context<'_>) -> Result<Ending> {
        let mut groups = cx.queue(&self.queue)?.held_groups(self.limit + 1)?;
        if groups.is_empty() {
            return none_in(Some(&self.queue), "no letter holds a group", cx);
        }
        let more = More::than(self.limit, MAX_LISTED, "groups", &mut groups);
        let table = table!(group in &groups => {
            Name "GROUP" => group.group,
            Number "LETTER" => group.letter,
            Number "HELD FOR" => ago(group.held_at),
            Number "WAITING" => grouped(group.waiting),
            Number "DIVERTED" => grouped(group.diverted),
            Name "KIND" => group.kind,
            Text "ERROR CLASS" => group.error_class,
        });
        cx.list_some(&more, "", &groups, group_json, &table)
    }
}

fn group_json(group: &HeldGroup) -> impl Serialize {
    object!(group => queue, group_key = &group.group, letter, kind, error_class, held_at, waiting, diverted)
}

impl ReleaseGroup {
    fn run(&self, cx: &mut Context<'_>) -> Result<Ending> {
        let (queue, group) = (cx.queue(&self.queue)?, one_line(&self.group));
        let operator = self.reason.operator();
        let Some(letter) = queue.release_group(&self.group, &operator)? else {
            let name = one_line(queue.name());
            return cx.nothing(format!("no letter holds group {group} of queue {name}"));
        };
        cx.print(
            &json!({ "queue": queue.name(), "group_key": self.group, "letter": letter.get() }),
            format!("group {group} continues without letter {letter}, which stays open"),
        )
    }
}
