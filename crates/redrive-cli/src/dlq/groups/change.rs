//! Changes to failure groups: their state, note and owner.

use redrive::BatchProgress;
use redrive::dlq::{FailureGroup, GroupFilter, GroupId, GroupState};

use super::show::not_found;
use crate::batches::{Batches, Undo, Watched};
use crate::bulk::{Changed, Found};
use crate::dlq::group::{
    self, MAX_GROUPS, MatchingGroup, group_json, group_table, matching, of_waiting, waiting,
};
use crate::prelude::*;
use crate::selection::WORDS;

/// How many groups a dry run shows.
const SHOWN: usize = 10;

/// What the words of a command on groups are.
const GROUPS: &str = "Only these groups; or a queue and conditions on their letters, such as class=Timeout; see \
                      below. With conditions this is a dry run without --yes";

/// Groups, and the reason for a new state.
#[derive(Args, Debug)]
#[command(mut_arg(WORDS, |words| words.required(true).value_name("GROUP|QUEUE|CONDITION").help(GROUPS)))]
#[group(skip)]
pub(super) struct ChangeGroup {
    #[command(flatten)]
    words: Words,
    #[command(flatten)]
    confirm: Confirm,
}

impl ChangeGroup {
    pub(super) fn run(&self, state: GroupState, cx: &mut Context<'_>) -> Result<Ending> {
        let (letters, ids) = (self.words.letters()?, self.words.ids());
        let db = &cx.database()?;
        let groups = match ids.is_empty() {
            true => {
                // A group is resolved when its letters no longer wait.
                let is_worked_on = state == GroupState::Acknowledged;
                let letters = letters.with_flag(is_worked_on, of_waiting);
                let others = GroupState::ALL.into_iter().filter(|other| *other != state);
                matching(&letters, GroupFilter::new().states(others), db)?
            }
            false => {
                let mut groups = Vec::new();
                for id in ids.iter().map(|id| GroupId::new(id.get())) {
                    let Some(group) = db.dlq().groups().get(id)? else {
                        return not_found(id, cx);
                    };
                    groups.push((waiting(&group), group));
                }
                groups
            }
        };
        let count = groups.len() as u64;
        if ids.is_empty() && count >= MAX_GROUPS {
            let most = grouped(MAX_GROUPS);
            cx.say(format!(
                "{most} groups at a time; repeat the command for the others"
            ));
        }
        let is_dry_run = self.confirm.dry_run || (!self.confirm.yes && ids.is_empty());
        // Groups given by id are only shown with --dry-run.
        let to_act = ids.is_empty().then(|| self.confirm.to_act());
        let letters = groups.iter().map(|(letters, _)| letters).sum();
        let found = Found {
            noun: "group".to_owned(),
            matching: count,
            affected: count,
            note: format!(", with {}", counted(letters, "letter")),
            sample: Some(group_table(&groups[..groups.len().min(SHOWN)])),
            ..Found::default()
        };
        found.change(
            Batches {
                noun: "group",
                action: state.as_str(),
                participle: state.as_str(),
                undo: Undo::None,
            },
            is_dry_run.then(|| to_act.into_iter().collect()),
            cx,
            |db| self.act(state, &groups, db),
            |cx| {
                cx.nothing(format!(
                    "no group that is not {state} has letters that match"
                ))
            },
        )
    }

    fn act(
        &self,
        state: GroupState,
        groups: &[MatchingGroup],
        db: &Watched,
    ) -> redrive::Result<Changed> {
        let (operator, of_db) = (self.confirm.reason.operator(), db.dlq().groups());
        let mut changed = Changed::default();
        for (place, (_, group)) in groups.iter().enumerate() {
            of_db.set_state(group.id, state, &operator)?;
            changed
                .lines
                .extend(of_db.get(group.id)?.as_ref().map(line));
            if db.go_on(BatchProgress::of(place + 1, None)).is_break() {
                break;
            }
        }
        Ok(changed)
    }
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
        db.dlq().groups().describe(id, note, owner, &operator)?;
        match db.dlq().groups().get(id)? {
            Some(group) => cx.print(&group_json(&group, waiting(&group)), line(&group)),
            None => not_found(id, cx),
        }
    }
}

/// The state of a group, and who owns it.
fn line(group: &FailureGroup) -> String {
    let owner = group.owner.as_ref();
    let owner = owner.map(|owner| format!(", owned by {}", one_line(owner)));
    format!(
        "group {} is {}{}",
        group.id,
        group::state(group),
        owner.unwrap_or_default()
    )
}
