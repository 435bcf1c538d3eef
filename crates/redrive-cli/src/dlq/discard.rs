//! `redrive dlq discard`: closes letters without redriving them.

use clap::{ArgGroup, Args};
use redrive::{Database, JobId};
use serde_json::json;

use super::bulk::{BulkAction, BulkPlan, BulkSelection};
use crate::context::{Context, Ending};
use crate::error::Result;
use crate::operator;
use crate::terminal::{counted, json_line};

/// Close open letters without redriving them
///
/// Without --yes this is a dry run. Letters given by --id are closed at once. Discarded letters
/// keep the reason, and stay in the database until they are pruned.
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
            BulkPlan::DryRun => self.selection.dry_run(&action, &db, cx),
            BulkPlan::Ids => self.discard_ids(&db, cx),
            BulkPlan::Matching => {
                let operator = operator::current(Some(&self.reason));
                let discarded = self.selection.in_batches(&action, &db, |filter| {
                    Ok(db.dlq().discard(filter, &operator)?.len() as u64)
                })?;
                report(discarded, &[], cx)?;
                Ok(if discarded > 0 {
                    Ending::Done
                } else {
                    Ending::NothingMatched
                })
            }
        }
    }

    fn discard_ids(&self, db: &Database, cx: &mut Context<'_>) -> Result<Ending> {
        let operator = operator::current(Some(&self.reason));
        let discarded = db
            .dlq()
            .discard(&self.selection.open_letters()?, &operator)?;
        let skipped: Vec<JobId> = self
            .selection
            .ids()
            .iter()
            .copied()
            .filter(|id| !discarded.contains(id))
            .collect();
        report(discarded.len() as u64, &skipped, cx)?;
        for id in &skipped {
            cx.say(format!(
                "letter {id} was not discarded: no open letter with this id matches"
            ));
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
