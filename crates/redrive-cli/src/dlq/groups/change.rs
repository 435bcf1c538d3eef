//! Changes to failure groups: their state, note and owner.

use redrive::dlq::{GroupFilter, GroupId, GroupState, LetterFilter};
use serde_json::Value;

use super::matching::{self, MAX_GROUPS, matching};
use super::show::not_found;
use crate::batches::{Batches, Undo};
use crate::dlq::group::{MatchingGroup, group_json, group_table, state, waiting};
use crate::prelude::*;
use crate::selection::is_condition;

/// How many groups a dry run shows.
const SHOWN: usize = 10;

/// Groups, and the reason for a new state.
#[derive(Args, Debug)]
#[group(skip)]
pub(super) struct ChangeGroup {
    /// The ids of the groups, or conditions on their letters, such as class=Timeout. With
    /// conditions this is a dry run without --yes.
    #[arg(value_name = "GROUP | CONDITION", required = true)]
    groups: Vec<String>,
    #[command(flatten)]
    confirm: Confirm,
}

impl ChangeGroup {
    pub(super) fn run(&self, state: GroupState, cx: &mut Context<'_>) -> Result<Ending> {
        let ids: Option<Vec<GroupId>> = self.groups.iter().map(|id| id.parse().ok()).collect();
        let (db, by_id) = (&cx.database()?, ids.is_some());
        let groups = match &ids {
            Some(ids) => by_ids(ids, db)?,
            None => self.matching(state, db)?,
        };
        let is_dry_run = self.confirm.dry_run || !(self.confirm.yes || by_id);
        if groups.is_empty() && !by_id {
            if cx.global.json {
                cx.json(&preview_json(state, &groups, is_dry_run))?;
            }
            return cx.nothing(format!(
                "no group that is not {state} has letters that match"
            ));
        }
        if !by_id && groups.len() as u64 >= MAX_GROUPS {
            let most = grouped(MAX_GROUPS);
            cx.say(format!(
                "{most} groups at a time; repeat the command for the others"
            ));
        }
        let mut ending = Ending::Done;
        for id in ids.into_iter().flatten() {
            if !groups.iter().any(|of| of.group.id == id) {
                ending = not_found(id, cx)?;
            }
        }
        if is_dry_run {
            let to_act = (!by_id).then(|| self.confirm.to_act());
            return Ok(ending.and(preview(state, &groups, to_act.as_slice(), cx)?));
        }
        let operator = self.confirm.reason.operator();
        let batches = Batches {
            noun: "group",
            action: "change",
            progressive: "changing groups",
            participle: state.as_str(),
            undo: Undo::None,
        };
        let mut changed = Vec::new();
        let ended = batches.run(groups.len() as u64, cx, |go_on| {
            for MatchingGroup { group, .. } in &groups {
                let exists = db.dlq().groups().set_state(group.id, state, &operator)?;
                changed.push((group.id, exists));
                if go_on((changed.len() as u64).into()).is_break() {
                    break;
                }
            }
            Ok(())
        });
        // An error at a later one leaves these changed.
        for (id, exists) in changed {
            ending = ending.and(report(exists, id, cx)?);
        }
        ended?.or_stopped(ending, cx)
    }

    /// The groups whose letters meet the conditions.
    fn matching(&self, state: GroupState, db: &Database) -> Result<Vec<MatchingGroup>> {
        if let Some(word) = self.groups.iter().find(|word| !is_condition(word)) {
            return Err(Error::new(match word.parse::<GroupId>() {
                Ok(id) => format!("an id cannot have conditions beside it; use group={id}"),
                Err(_) => format!(
                    "`{word}` is neither the id of a group nor a condition such as class=Timeout"
                ),
            }));
        }
        let mut letters = LetterFilter::new();
        for condition in &self.groups {
            letters = letters.and(LetterFilter::parse_condition(condition)?)?;
        }
        // A group is resolved when its letters no longer wait.
        let is_worked_on = state == GroupState::Acknowledged;
        let letters = letters.with_flag(is_worked_on, matching::waiting);
        let others = GroupState::ALL.into_iter().filter(|other| *other != state);
        matching(&letters, GroupFilter::new().states(others), db)
    }
}

/// Those of the groups that exist, each once and in this order, with their waiting letters.
fn by_ids(ids: &[GroupId], db: &Database) -> Result<Vec<MatchingGroup>> {
    let mut groups: Vec<MatchingGroup> = Vec::new();
    for id in ids {
        if !groups.iter().any(|known| known.group.id == *id) {
            groups.extend(db.dlq().groups().get(*id)?.map(MatchingGroup::waiting));
        }
    }
    Ok(groups)
}

/// Shows the groups that would change.
fn preview(
    state: GroupState,
    groups: &[MatchingGroup],
    to_act: &[&str],
    cx: &mut Context<'_>,
) -> Result<Ending> {
    if cx.global.json {
        return cx.json(&preview_json(state, groups, true));
    }
    if groups.is_empty() {
        return Ok(Ending::NothingMatched);
    }
    group_table(&groups[..groups.len().min(SHOWN)]).write(cx.out)?;
    let more = groups.len().saturating_sub(SHOWN) as u64;
    if more > 0 {
        writeln!(cx.out, "and {} more", counted(more, "group"))?;
    }
    let letters = groups.iter().map(|matching| matching.letters).sum();
    writeln!(
        cx.out,
        "\n{} with {} would be {state}.",
        counted(groups.len() as u64, "group"),
        counted(letters, "letter")
    )?;
    cx.propose(to_act)
}

fn preview_json(state: GroupState, groups: &[MatchingGroup], is_dry_run: bool) -> Value {
    let letters: u64 = groups.iter().map(|matching| matching.letters).sum();
    let ids = groups.iter().map(|matching| matching.group.id.get());
    json!({
        "dry_run": is_dry_run, "state": state.as_str(), "groups": ids.collect::<Vec<_>>(),
        "letters": letters,
    })
}

/// Set the note or the owner of a failure group
#[derive(Args, Debug)]
#[command(before_help = "\
Examples:
  redrive dlq groups set 12 --owner payments --note 'see the runbook'
  redrive dlq groups set 12 --note ''
")]
pub(super) struct SetGroup {
    /// The id of the group.
    group: GroupId,
    /// The new note. An empty text removes it.
    #[arg(long, value_name = "TEXT", required_unless_present = "owner")]
    note: Option<String>,
    /// The new owner, a person or a team. An empty text removes it.
    #[arg(long, value_name = "NAME")]
    owner: Option<String>,
}

impl SetGroup {
    pub(super) fn run(&self, cx: &mut Context<'_>) -> Result<Ending> {
        let (db, id, operator) = (cx.database()?, self.group, operator::current(None));
        let (note, owner) = (self.note.as_deref(), self.owner.as_deref());
        let exists = db.dlq().groups().describe(id, note, owner, &operator)?;
        report(exists, id, cx)
    }
}

/// Prints the new state of the group.
fn report(exists: bool, id: GroupId, cx: &mut Context<'_>) -> Result<Ending> {
    let db = &cx.database()?;
    let Some(group) = db.dlq().groups().get(id)?.filter(|_| exists) else {
        return not_found(id, cx);
    };
    let owner = group.owner.as_ref();
    let owner = owner.map(|owner| format!(", owned by {}", one_line(owner)));
    cx.print(
        &group_json(&group, waiting(&group)),
        format!(
            "group {id} is {}{}",
            state(&group),
            owner.unwrap_or_default()
        ),
    )
}
