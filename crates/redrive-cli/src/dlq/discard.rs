//! `redrive dlq discard`: closes letters without redriving them.

use clap::{ArgGroup, Args};
use redrive::dlq::LetterState;
use redrive::{Database, JobId};
use serde_json::json;

use super::bulk::{BulkAction, BulkPlan, BulkSelection};
use super::filter::quoted;
use super::none_matched::{NoneMatched, words};
use crate::context::{Context, Ending};
use crate::error::Result;
use crate::operator;
use crate::terminal::{counted, json_line};

/// Close open letters without redriving them
///
/// Without --yes this is a dry run. Letters given by --id are closed at once, quarantined ones too.
/// Discarded letters keep the reason, and stay in the database until they are pruned.
#[derive(Args, Debug)]
#[command(
    group(ArgGroup::new("which").required(true)),
    override_usage = "redrive dlq discard <QUEUE | --id ID...> [CONDITION...] --reason <TEXT> [OPTIONS]",
    before_help = "\
Examples:
  redrive dlq discard --id 42 --reason 'refunded by hand'
  redrive dlq discard orders --kind order.test --reason 'test orders' --yes
"
)]
pub(super) struct Discard {
    #[command(flatten)]
    selection: BulkSelection,
    /// The reason, for the letters and the audit log.
    #[arg(long, help_heading = "Action", value_name = "TEXT")]
    reason: String,
}

impl Discard {
    pub(super) fn run(&self, cx: &mut Context<'_>) -> Result<Ending> {
        let action = BulkAction {
            command: "discard",
            participle: "discarded",
            progressive: "discarding",
            affects: |count| count.letters,
            reason: Some(&self.reason),
        };
        let db = cx.database()?;
        match self.selection.plan() {
            BulkPlan::DryRun => match self.selection.dry_run(&action, &db, cx)? {
                Some(ending) => Ok(ending),
                None => self.nothing_matched(&db, cx),
            },
            BulkPlan::Ids => self.discard_ids(&db, cx),
            BulkPlan::Matching => {
                let operator = operator::current(Some(&self.reason));
                let discarded = self.selection.in_batches(&action, &db, |filter| {
                    Ok(db.dlq().discard(filter, &operator)?.len() as u64)
                })?;
                report(discarded, &[], cx)?;
                match discarded {
                    0 => self.nothing_matched(&db, cx),
                    _ => Ok(Ending::Done),
                }
            }
        }
    }

    /// Says that no letter can be discarded, and why.
    fn nothing_matched(&self, db: &Database, cx: &mut Context<'_>) -> Result<Ending> {
        let states = self.selection.closable_states()?;
        let what = match states.is_empty() {
            true => "no letter in these states can be discarded".to_owned(),
            false => format!("no {} letter matches", words(&states)),
        };
        let none = NoneMatched {
            queue: self.selection.queue(),
            filter: &self.selection.letters()?,
            states: &states,
            what,
            by_id: "discard --reason TEXT --id",
            quarantined: &|conditions| {
                let reason = quoted(&self.reason);
                format!("redrive dlq discard {conditions} state=quarantined --reason {reason}")
            },
        };
        none.say(db, cx)
    }

    fn discard_ids(&self, db: &Database, cx: &mut Context<'_>) -> Result<Ending> {
        let operator = operator::current(Some(&self.reason));
        let discarded = match self.selection.closable()? {
            Some(closable) => db.dlq().discard(&closable, &operator)?,
            None => Vec::new(),
        };
        let skipped: Vec<JobId> = self
            .selection
            .ids()
            .iter()
            .copied()
            .filter(|id| !discarded.contains(id))
            .collect();
        report(discarded.len() as u64, &skipped, cx)?;
        for id in &skipped {
            let cause = match db.dlq().get(*id)? {
                None => "it does not exist".to_owned(),
                Some(letter)
                    if [LetterState::Open, LetterState::Quarantined].contains(&letter.state) =>
                {
                    format!("it is {} and does not match the conditions", letter.state)
                }
                Some(letter) => format!("it is {}", letter.state),
            };
            cx.say(format!("letter {id} was not discarded: {cause}"));
        }
        Ok(if skipped.is_empty() {
            Ending::Done
        } else {
            Ending::NothingMatched
        })
    }
}

fn report(discarded: u64, skipped: &[JobId], cx: &mut Context<'_>) -> Result<()> {
    if cx.global.json {
        let skipped: Vec<i64> = skipped.iter().map(|id| id.get()).collect();
        return json_line(
            cx.out,
            &json!({ "discarded": discarded, "skipped": skipped }),
        );
    }
    Ok(writeln!(
        cx.out,
        "{} discarded",
        counted(discarded, "letter")
    )?)
}
