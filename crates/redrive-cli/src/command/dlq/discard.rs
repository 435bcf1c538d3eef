//! `redrive dlq discard`: letters that nobody wants any more.

use clap::{ArgGroup, Args};
use redrive::{Database, JobId};
use serde_json::json;

use super::bulk::{Act, Choice, Plan};
use crate::args::Arguments;
use crate::connect::{self, Patience};
use crate::error::Result;
use crate::person;
use crate::render::{counted, json_line};
use crate::{Ending, Streams};

/// Close open letters for good, and keep why.
///
/// They stay, with the reason, until they are pruned. Letters that are named by --id are closed at
/// once. For a whole queue, the default is a dry run that shows what would be closed; --yes makes
/// it so.
#[derive(Args, Debug)]
#[command(group(ArgGroup::new("which").required(true)), after_help = "\
Examples:
  redrive dlq discard --id 42 --why 'refunded by hand'
  redrive dlq discard orders --kind order.test --why 'test orders' --yes")]
pub(crate) struct Discard {
    #[command(flatten)]
    choice: Choice,
    /// Why they are closed: kept with each letter.
    #[arg(long, value_name = "TEXT")]
    why: String,
}

impl Discard {
    pub(crate) fn run(&self, arguments: &Arguments, io: &mut Streams<'_>) -> Result<Ending> {
        let act = Act {
            command: "discard",
            word: "discarded",
            doing: "discarding",
            affects: |count| count.letters,
            why: Some(&self.why),
        };
        let db = connect::database(arguments, Patience::Minute, io)?;
        match self.choice.plan() {
            Plan::DryRun => self.choice.dry_run(&act, &db, arguments, io),
            Plan::These => self.these(&db, arguments, io),
            Plan::Bulk => {
                let closed = self.choice.in_bulk(&act, &db, |which| {
                    Ok(db.discard(which, &person::act(Some(&self.why)))?.len() as u64)
                })?;
                report(closed, &[], arguments, io)?;
                Ok(if closed > 0 {
                    Ending::Done
                } else {
                    Ending::NothingMatched
                })
            }
        }
    }

    fn these(&self, db: &Database, arguments: &Arguments, io: &mut Streams<'_>) -> Result<Ending> {
        let closed = db.discard(&self.choice.letters()?, &person::act(Some(&self.why)))?;
        let skipped: Vec<JobId> = self
            .choice
            .ids()
            .iter()
            .copied()
            .filter(|id| !closed.contains(id))
            .collect();
        report(closed.len() as u64, &skipped, arguments, io)?;
        for id in &skipped {
            io.say(format!(
                "letter {id} is not discarded: there is no open letter of this id that matches"
            ));
        }
        Ok(if skipped.is_empty() {
            Ending::Done
        } else {
            Ending::NothingMatched
        })
    }
}

fn report(
    closed: u64,
    skipped: &[JobId],
    arguments: &Arguments,
    io: &mut Streams<'_>,
) -> Result<()> {
    if arguments.json {
        let skipped: Vec<i64> = skipped.iter().map(|id| id.get()).collect();
        return json_line(io.out, &json!({ "discarded": closed, "skipped": skipped }));
    }
    Ok(writeln!(io.out, "{} discarded", counted(closed, "letter"))?)
}
