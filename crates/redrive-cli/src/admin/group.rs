//! `redrive queue groups`: the policy for the groups of a queue, and the groups that a letter holds.

use clap::Subcommand;

use redrive::{Database, GroupDeath, GroupPolicy, HeldGroup, Queue};
use serde_json::{Value, json};

use crate::context::{Context, Ending};
use crate::error::{Error, Result};
use crate::operator;
use crate::profession::Profession;
use crate::terminal::{Column, Table, grouped, json_line, one_line};
use crate::time::{ago, rfc3339};

/// The largest number of held groups in a list.
const MAX_LISTED: u32 = 1000;

#[derive(Debug, Subcommand)]
pub(super) enum QueueGroupsCommand {
    /// Set what the groups of a queue mean
    #[command(
        before_help = "\
Examples:
  redrive queue groups set orders ordered --on-death hold --reason 'one step after the other'
  redrive queue groups set bills ordered --on-death divert --reason 'repair them together'
  redrive queue groups set imports limit=3 --reason 'three imports per customer'
  redrive queue groups set mails fair --reason 'customers take turns'
  redrive queue groups set mails none --reason 'one customer is left'
",
        after_help = "\
ordered: one job of a group at a time, in the order of the ids. limit=N: at most N at a time.
fair: the groups take turns. none: the group of a job is metadata. Waiting jobs are kept."
    )]
    Set {
        /// Queue.
        queue: String,
        /// Policy: ordered, limit=N, fair or none.
        #[arg(value_parser = mode)]
        policy: Mode,
        /// Effect of a death on an ordered group: continue; hold until the letter is dealt with; or divert
        /// the jobs behind it to the dead letters [default: continue].
        #[arg(long, value_name = "EFFECT")]
        on_death: Option<OnDeath>,
        /// The reason, for other operators and the audit log.
        #[arg(long, value_name = "TEXT")]
        reason: String,
    },
    /// Show the policy of a queue
    #[command(before_help = "\
Example:
  redrive queue groups show orders
")]
    Show {
        /// Queue.
        queue: String,
    },
    /// List the groups whose jobs wait behind a letter
    #[command(
        before_help = "\
Example:
  redrive queue groups held orders
",
        after_help = "\
Redrive the letter to run its job first, or discard it to continue without the job. The
exit code is 1 if no letter holds a group."
    )]
    Held {
        /// Queue.
        queue: String,
    },
    /// Let the jobs of a group continue without the letter that holds it
    #[command(
        before_help = "\
Example:
  redrive queue groups release orders order:42 --reason 'shipped by hand'
",
        after_help = "The letter stays open. The exit code is 1 if no letter holds the group."
    )]
    Release {
        /// Queue.
        queue: String,
        /// Group.
        group: String,
        /// The reason, for the audit log.
        #[arg(long, value_name = "TEXT")]
        reason: String,
    },
}

/// The value of `POLICY`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    None,
    Ordered,
    Limit(u32),
    Fair,
}

/// The value of `--on-death`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum OnDeath {
    Continue,
    Hold,
    Divert,
}

fn mode(text: &str) -> std::result::Result<Mode, String> {
    match (text, text.strip_prefix("limit=").map(str::parse)) {
        ("none", _) => Ok(Mode::None),
        ("ordered", _) => Ok(Mode::Ordered),
        ("fair", _) => Ok(Mode::Fair),
        (_, Some(Ok(limit))) => Ok(Mode::Limit(limit)),
        (_, Some(Err(_))) => {
            Err("at character 7: expected a number of jobs, as in limit=3".to_owned())
        }
        _ => Err("at character 1: expected ordered, limit=N, fair or none".to_owned()),
    }
}

/// Returns the policy. `None`: only an ordered group can be held or diverted.
fn policy(mode: Mode, on_death: Option<OnDeath>) -> Option<GroupPolicy> {
    match (mode, on_death) {
        (Mode::Ordered, Some(OnDeath::Hold)) => Some(GroupPolicy::Ordered(GroupDeath::Hold)),
        (Mode::Ordered, Some(OnDeath::Continue) | None) => {
            Some(GroupPolicy::Ordered(GroupDeath::Continue))
        }
        (Mode::Ordered, Some(OnDeath::Divert)) => Some(GroupPolicy::Ordered(GroupDeath::Divert)),
        (_, Some(OnDeath::Hold | OnDeath::Divert)) => None,
        (Mode::None, _) => Some(GroupPolicy::None),
        (Mode::Limit(jobs), _) => Some(GroupPolicy::Limit(jobs)),
        (Mode::Fair, _) => Some(GroupPolicy::Fair),
    }
}

impl QueueGroupsCommand {
    /// The role that the command needs.
    pub(super) fn profession(&self) -> Profession {
        match self {
            QueueGroupsCommand::Show { .. } | QueueGroupsCommand::Held { .. } => Profession::Reader,
            QueueGroupsCommand::Set { .. } | QueueGroupsCommand::Release { .. } => {
                Profession::Operator
            }
        }
    }

    pub(super) fn run(&self, db: &Database, cx: &mut Context<'_>) -> Result<Ending> {
        match self {
            QueueGroupsCommand::Set {
                queue,
                policy: mode,
                on_death,
                reason,
            } => {
                let queue = Queue::new(db, queue)?;
                let Some(policy) = policy(*mode, *on_death) else {
                    return Err(Error::new(
                        "only an ordered group can be held or diverted: --on-death hold and divert need the policy ordered",
                    ));
                };
                queue.set_group_policy(policy, &operator::current(Some(reason)))?;
                show(&queue, policy, cx)
            }
            QueueGroupsCommand::Show { queue } => {
                let queue = Queue::new(db, queue)?;
                let policy = queue.group_policy()?;
                show(&queue, policy, cx)
            }
            QueueGroupsCommand::Held { queue } => held(&Queue::new(db, queue)?, cx),
            QueueGroupsCommand::Release {
                queue,
                group,
                reason,
            } => release(&Queue::new(db, queue)?, group, reason, cx),
        }
    }
}

fn show(queue: &Queue, policy: GroupPolicy, cx: &mut Context<'_>) -> Result<Ending> {
    let (mode, limit, on_death, meaning) = match policy {
        GroupPolicy::Ordered(GroupDeath::Hold) => (
            "ordered",
            None,
            "hold",
            "one job of a group runs at a time; a letter holds its group".to_owned(),
        ),
        GroupPolicy::Ordered(GroupDeath::Divert) => (
            "ordered",
            None,
            "divert",
            "one job of a group runs at a time; jobs behind a letter become letters".to_owned(),
        ),
        GroupPolicy::Ordered(_) => (
            "ordered",
            None,
            "continue",
            "one job of a group runs at a time; after a death the next one runs".to_owned(),
        ),
        GroupPolicy::Limit(jobs) => (
            "limit",
            Some(jobs),
            "continue",
            format!(
                "at most {} jobs of a group run at a time",
                grouped(u64::from(jobs))
            ),
        ),
        GroupPolicy::Fair => ("fair", None, "continue", "groups take turns".to_owned()),
        GroupPolicy::None | _ => ("none", None, "continue", "groups are metadata".to_owned()),
    };
    match cx.global.json {
        true => json_line(
            cx.out,
            &json!({
                "queue": queue.name(),
                "policy": mode,
                "limit": limit,
                "on_death": on_death,
            }),
        )?,
        false => writeln!(cx.out, "queue {}: {meaning}", one_line(queue.name()))?,
    }
    Ok(Ending::Done)
}

fn held(queue: &Queue, cx: &mut Context<'_>) -> Result<Ending> {
    let groups = queue.held_groups(MAX_LISTED)?;
    if groups.is_empty() {
        cx.say("no letter holds a group");
        return Ok(Ending::NothingMatched);
    }
    if cx.global.json {
        for group in &groups {
            json_line(cx.out, &group_json(group))?;
        }
        return Ok(Ending::Done);
    }
    let mut table = Table::new([
        Column::Name("GROUP"),
        Column::Number("LETTER"),
        Column::Number("HELD FOR"),
        Column::Number("WAITING"),
        Column::Number("DIVERTED"),
        Column::Name("KIND"),
        Column::Text("ERROR CLASS"),
    ]);
    for group in &groups {
        table.row([
            group.group.clone(),
            group.letter.to_string(),
            ago(group.held_at),
            grouped(group.waiting),
            grouped(group.diverted),
            group.kind.clone(),
            group.error_class.clone(),
        ]);
    }
    table.write(cx.out)?;
    Ok(Ending::Done)
}

fn group_json(group: &HeldGroup) -> Value {
    json!({
        "queue": group.queue,
        "group": group.group,
        "letter": group.letter.get(),
        "kind": group.kind,
        "error_class": group.error_class,
        "held_at": rfc3339(group.held_at),
        "waiting": group.waiting,
        "diverted": group.diverted,
    })
}

fn release(queue: &Queue, group: &str, reason: &str, cx: &mut Context<'_>) -> Result<Ending> {
    let Some(letter) = queue.release_group(group, &operator::current(Some(reason)))? else {
        cx.say(format!(
            "no letter holds group {} of queue {}",
            one_line(group),
            one_line(queue.name())
        ));
        return Ok(Ending::NothingMatched);
    };
    match cx.global.json {
        true => json_line(
            cx.out,
            &json!({ "queue": queue.name(), "group": group, "letter": letter.get() }),
        )?,
        false => writeln!(
            cx.out,
            "group {} continues without letter {letter}, which stays open",
            one_line(group)
        )?,
    }
    Ok(Ending::Done)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_is_read_from_its_words() {
        for (text, on_death, expected) in [
            ("none", None, Some(GroupPolicy::None)),
            ("fair", None, Some(GroupPolicy::Fair)),
            (
                "limit=3",
                Some(OnDeath::Continue),
                Some(GroupPolicy::Limit(3)),
            ),
            (
                "ordered",
                None,
                Some(GroupPolicy::Ordered(GroupDeath::Continue)),
            ),
            (
                "ordered",
                Some(OnDeath::Hold),
                Some(GroupPolicy::Ordered(GroupDeath::Hold)),
            ),
            (
                "ordered",
                Some(OnDeath::Divert),
                Some(GroupPolicy::Ordered(GroupDeath::Divert)),
            ),
            ("fair", Some(OnDeath::Hold), None),
            ("limit=2", Some(OnDeath::Divert), None),
        ] {
            assert_eq!(policy(mode(text).unwrap(), on_death), expected, "{text}");
        }
        for (text, character) in [
            ("", 1),
            ("limit", 1),
            ("limit=", 7),
            ("limit=-1", 7),
            ("limit=x", 7),
            ("Ordered", 1),
        ] {
            let why = mode(text).map(|_| ()).unwrap_err();
            assert!(
                why.starts_with(&format!("at character {character}: ")),
                "{text}: {why}"
            );
        }
    }
}
