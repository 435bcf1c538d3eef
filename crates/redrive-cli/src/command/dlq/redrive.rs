//! `redrive dlq redrive`: letters back into their queues.

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

const ACT: Act<'static> = Act {
    command: "redrive",
    word: "redriven",
    doing: "redriving",
    affects: |count| count.redrivable,
    why: None,
};

/// Send open letters back into their queues as jobs.
///
/// Each keeps its id, its payload and its history, and gets all its attempts again. Letters that
/// are named by --id go at once. For a whole queue, the default is a dry run that shows what
/// would go; --yes makes it so. A captured letter that is not JSON stays where it is.
#[derive(Args, Debug)]
#[command(group(ArgGroup::new("which").required(true)), after_help = "\
Examples:
  redrive dlq redrive --id 42 43
  redrive dlq redrive orders class=Timeout 'died>2h'
  redrive dlq redrive orders --reason rejected --limit 100 --yes")]
pub(crate) struct Redrive {
    #[command(flatten)]
    choice: Choice,
}

impl Redrive {
    pub(crate) fn run(&self, arguments: &Arguments, io: &mut Streams<'_>) -> Result<Ending> {
        let db = connect::database(arguments, Patience::Minute, io)?;
        match self.choice.plan() {
            Plan::DryRun => self.choice.dry_run(&ACT, &db, arguments, io),
            Plan::These => self.these(&db, arguments, io),
            Plan::Bulk => self.bulk(&db, arguments, io),
        }
    }

    fn these(&self, db: &Database, arguments: &Arguments, io: &mut Streams<'_>) -> Result<Ending> {
        let done = db.redrive(&self.choice.letters()?, &person::act(None))?;
        report(done.redriven.len() as u64, &done.skipped, arguments, io)?;
        for id in &done.skipped {
            let why = match db.letter(*id)? {
                None => "there is no such letter".to_owned(),
                Some(letter) if letter.payload.is_none() => {
                    "it was captured and is not JSON".to_owned()
                }
                Some(letter) => format!(
                    "it is {} ({}, {})",
                    letter.state, letter.reason, letter.error_class
                ),
            };
            io.say(format!("letter {id} is not redriven: {why}"));
        }
        Ok(if done.skipped.is_empty() {
            Ending::Done
        } else {
            Ending::NothingMatched
        })
    }

    fn bulk(&self, db: &Database, arguments: &Arguments, io: &mut Streams<'_>) -> Result<Ending> {
        let redriven = self.choice.in_bulk(&ACT, db, |which| {
            Ok(db.redrive(which, &person::act(None))?.redriven.len() as u64)
        })?;
        report(redriven, &[], arguments, io)?;
        Ok(if redriven > 0 {
            Ending::Done
        } else {
            Ending::NothingMatched
        })
    }
}

fn report(
    redriven: u64,
    skipped: &[JobId],
    arguments: &Arguments,
    io: &mut Streams<'_>,
) -> Result<()> {
    if arguments.json {
        let skipped: Vec<i64> = skipped.iter().map(|id| id.get()).collect();
        return json_line(io.out, &json!({ "redriven": redriven, "skipped": skipped }));
    }
    Ok(writeln!(
        io.out,
        "{} redriven",
        counted(redriven, "letter")
    )?)
}
