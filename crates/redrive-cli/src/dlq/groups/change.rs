//! Changes to a failure group: its state, note and owner.

use clap::Args;
use redrive::Database;
use redrive::dlq::{GroupId, GroupState};

use super::show::not_found;
use crate::context::{Context, Ending};
use crate::dlq::group::{group_json, state};
use crate::error::Result;
use crate::operator;
use crate::terminal::{json_line, one_line};

/// A group, and the reason for a new state.
#[derive(Args, Debug)]
#[group(skip)]
pub(super) struct ChangeGroup {
    /// The id of the group.
    group: GroupId,
    /// The reason, for the audit log.
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
}

impl ChangeGroup {
    pub(super) fn run(&self, state: GroupState, cx: &mut Context<'_>) -> Result<Ending> {
        let db = cx.database()?;
        let operator = operator::current(self.reason.as_deref());
        let exists = db.dlq().groups().set_state(self.group, state, &operator)?;
        report(exists, self.group, &db, cx)
    }
}

/// Set the note of a failure group
#[derive(Args, Debug)]
#[command(before_help = "\
Examples:
  redrive dlq groups note 12 'see the runbook of the gateway'
  redrive dlq groups note 12 ''
")]
pub(super) struct NoteGroup {
    /// The id of the group.
    group: GroupId,
    /// The new note. An empty text removes the note.
    text: String,
}

impl NoteGroup {
    pub(super) fn run(&self, cx: &mut Context<'_>) -> Result<Ending> {
        let db = cx.database()?;
        let note = Some(&*self.text).filter(|text| !text.trim().is_empty());
        let exists = db
            .dlq()
            .groups()
            .set_note(self.group, note, &operator::current(None))?;
        report(exists, self.group, &db, cx)
    }
}

/// Set the owner of a failure group
#[derive(Args, Debug)]
#[command(before_help = "\
Examples:
  redrive dlq groups own 12 payments
  redrive dlq groups own 12 ''
")]
pub(super) struct AssignGroup {
    /// The id of the group.
    group: GroupId,
    /// A person or a team. An empty text removes the owner.
    owner: String,
}

impl AssignGroup {
    pub(super) fn run(&self, cx: &mut Context<'_>) -> Result<Ending> {
        let db = cx.database()?;
        let owner = Some(&*self.owner).filter(|owner| !owner.trim().is_empty());
        let exists = db
            .dlq()
            .groups()
            .assign(self.group, owner, &operator::current(None))?;
        report(exists, self.group, &db, cx)
    }
}

/// Prints the new state of the group.
fn report(exists: bool, id: GroupId, db: &Database, cx: &mut Context<'_>) -> Result<Ending> {
    let Some(group) = db.dlq().groups().get(id)?.filter(|_| exists) else {
        return Ok(not_found(id, cx));
    };
    if cx.global.json {
        json_line(cx.out, &group_json(&group))?;
    } else {
        let owner = group
            .owner
            .as_ref()
            .map(|owner| format!(", owned by {}", one_line(owner)));
        writeln!(
            cx.out,
            "group {id} is {}{}",
            state(&group),
            owner.unwrap_or_default()
        )?;
    }
    Ok(Ending::Done)
}
