//! `redrive dlq redrive`: letters back into their queues.

use std::num::NonZeroU32;

use clap::{ArgGroup, Args};
use redrive::{
    CreatedRun, Database, JobId, LetterState, Preview, Rate, RedriveOptions, Redriven, RunOptions,
    Skip, Unserved,
};
use serde_json::json;

use super::bulk::{Act, Choice, Plan};
use super::drive::follow;
use super::filter::quoted;
use super::list::open_letters;
use crate::args::Arguments;
use crate::connect::{self, Patience};
use crate::error::Result;
use crate::person;
use crate::render::{counted, grouped, json_line};
use crate::run::RunLine;
use crate::table::{Column, Table};
use crate::{Ending, Streams};

const ACT: Act<'static> = Act {
    command: "redrive",
    word: "redriven",
    doing: "redriving",
    affects: |count| count.redrivable,
    why: None,
};
/// How many groups and letters a dry run shows.
const GROUPS: usize = 10;
const SAMPLE: u64 = 5;

/// Send open letters back into their queues as jobs.
///
/// Each keeps its id, its payload and its history, and gets all its attempts again. Letters that
/// are named by --id go at once. For a whole queue, the default is a dry run that shows what
/// would go; --yes makes it so, as a run that this command drives: 100 letters a second, or what
/// --rate says. Ctrl-C pauses the run. When this command is killed, a worker drives on; see
/// `dlq runs`. A captured letter that is not JSON stays where it is.
#[derive(Args, Debug)]
#[command(group(ArgGroup::new("which").required(true)), after_help = "\
Examples:
  redrive dlq redrive --id 42 43
  redrive dlq redrive orders class=Timeout 'died>2h'
  redrive dlq redrive orders --reason rejected --limit 100 --yes
  redrive dlq redrive orders --canary 10 --why 'gateway fixed, INC-7' --yes
  redrive dlq redrive orders --unthrottled --priority -10 --yes

With --canary N, N letters go first and alone. While they recover, four and
sixteen times as many follow, and then the rest. When more than a tenth die
again the run halts by itself, and the rest stays open.")]
pub(crate) struct Redrive {
    #[command(flatten)]
    choice: Choice,
    #[command(flatten)]
    how: How,
    #[command(flatten)]
    pace: Pace,
}

/// How letters go back.
#[derive(Args, Debug)]
struct How {
    /// Why, for the audit and the story of each letter; --force needs it.
    #[arg(long, value_name = "TEXT")]
    why: Option<String>,
    /// Into this queue instead of their own.
    #[arg(long, value_name = "QUEUE")]
    to: Option<String>,
    /// With this priority instead of their own; a low one lets live jobs go first.
    #[arg(long, allow_negative_numbers = true, value_parser = clap::value_parser!(i16).range(-1000..=1000))]
    priority: Option<i16>,
    /// With so many attempts instead of their own.
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = clap::value_parser!(u32).range(1..=1000))]
    max_attempts: Option<u32>,
    /// Quarantined letters too, those that died of the same thing three times; needs --why.
    #[arg(long, requires = "why")]
    force: bool,
}

/// How fast a whole queue goes back.
#[derive(Args, Debug)]
struct Pace {
    /// Letters a second [default: 100].
    #[arg(long, value_name = "N", conflicts_with_all = ["ids", "unthrottled"])]
    rate: Option<NonZeroU32>,
    /// As fast as the database takes them. Letters have older ids than live jobs and go before
    /// those of the same priority: with a negative --priority live jobs go first.
    #[arg(long, conflicts_with = "ids")]
    unthrottled: bool,
    /// So many go first and alone, and what becomes of them decides.
    #[arg(long, value_name = "N", conflicts_with = "ids")]
    canary: Option<u32>,
    /// Make the run and leave it to the workers to drive.
    #[arg(long, conflicts_with = "ids")]
    detach: bool,
}

impl Redrive {
    pub(crate) fn run(&self, arguments: &Arguments, io: &mut Streams<'_>) -> Result<Ending> {
        let db = connect::database(arguments, Patience::Minute, io)?;
        match self.choice.plan() {
            Plan::DryRun => self.dry_run(&db, arguments, io),
            Plan::These => self.these(&db, arguments, io),
            Plan::Bulk => self.bulk(&db, arguments, io),
        }
    }

    fn options(&self) -> RedriveOptions {
        let mut options = RedriveOptions::new();
        if let Some(queue) = &self.how.to {
            options = options.to_queue(queue);
        }
        if let Some(priority) = self.how.priority {
            options = options.priority(priority);
        }
        if let Some(attempts) = self.how.max_attempts {
            options = options.max_attempts(attempts);
        }
        match self.how.force {
            true => options.force(),
            false => options,
        }
    }

    fn run_options(&self) -> RunOptions {
        let options = RunOptions::new()
            .letters(self.options())
            .canary(self.pace.canary.unwrap_or(0));
        match (self.pace.unthrottled, self.pace.rate) {
            (true, _) => options.rate(Rate::Unthrottled),
            (false, Some(rate)) => options.rate(Rate::PerSecond(rate)),
            (false, None) => options,
        }
    }

    fn dry_run(
        &self,
        db: &Database,
        arguments: &Arguments,
        io: &mut Streams<'_>,
    ) -> Result<Ending> {
        let which = self.choice.all()?;
        let preview = db.preview_redrive(&which, &self.options())?;
        let mut matching = db
            .count_letters(&which.clone().state(LetterState::Open))?
            .letters;
        if self.how.force {
            let quarantined = which.clone().state(LetterState::Quarantined);
            matching += db.count_letters(&quarantined)?.letters;
        }
        let affected = self.choice.limited(preview.letters());
        if arguments.json {
            json_line(
                io.out,
                &json!({
                    "dry_run": true,
                    "matching": matching,
                    "would_change": affected,
                    "groups": preview.groups.iter().map(|group| json!({
                        "group": group.group.get(),
                        "queue": group.queue,
                        "kind": group.kind,
                        "error_class": group.error_class,
                        "title": group.title,
                        "letters": group.letters,
                    })).collect::<Vec<_>>(),
                    "unserved": unserved_json(&preview.unserved),
                }),
            )?;
        } else if matching > 0 {
            let letters = match self.how.force {
                true => counted(matching, "open or quarantined letter"),
                false => counted(matching, "open letter"),
            };
            let verb = if matching == 1 { "matches" } else { "match" };
            writeln!(
                io.out,
                "{letters} {verb}; {} would be {}.\n",
                grouped(affected),
                ACT.word
            )?;
            groups(&preview, io)?;
            let sample = which.state(LetterState::Open).limit(SAMPLE);
            open_letters(&db.letters(&sample)?).write(io.out)?;
            writeln!(
                io.out,
                "\nNothing was changed. To act:\n  {}",
                self.choice.words(&ACT, &self.words())
            )?;
        }
        warn(&preview.unserved, io);
        if matching == 0 {
            io.say("no open letter matches");
            return Ok(Ending::NothingMatched);
        }
        Ok(Ending::Done)
    }

    /// The options, as they are typed.
    fn words(&self) -> Vec<String> {
        let mut words = Vec::new();
        let mut given = |name: &str, value: Option<String>| {
            words.extend(value.map(|value| format!("--{name} {}", quoted(&value))));
        };
        given("why", self.how.why.clone());
        given("to", self.how.to.clone());
        given("priority", self.how.priority.map(|n| n.to_string()));
        given("max-attempts", self.how.max_attempts.map(|n| n.to_string()));
        given("rate", self.pace.rate.map(|n| n.to_string()));
        given("canary", self.pace.canary.map(|n| n.to_string()));
        let flags = [
            ("--force", self.how.force),
            ("--unthrottled", self.pace.unthrottled),
            ("--detach", self.pace.detach),
        ];
        let flags = flags.into_iter().filter(|(_, is_given)| *is_given);
        words.extend(flags.map(|(flag, _)| flag.to_owned()));
        words
    }

    fn these(&self, db: &Database, arguments: &Arguments, io: &mut Streams<'_>) -> Result<Ending> {
        let act = person::act(self.how.why.as_deref());
        let done = db.redrive_with(&self.choice.all()?, &self.options(), &act)?;
        report(&done, arguments, io)?;
        for (id, skip) in &done.skipped {
            let why = match (skip, db.letter(*id)?) {
                (Skip::NotOpen, Some(letter)) => format!(
                    "it is {} ({}, {})",
                    letter.state, letter.reason, letter.error_class
                ),
                _ => skip.to_string(),
            };
            io.say(format!("letter {id} is not redriven: {why}"));
        }
        warn(&done.unserved, io);
        Ok(if done.skipped.is_empty() {
            Ending::Done
        } else {
            Ending::NothingMatched
        })
    }

    fn bulk(&self, db: &Database, arguments: &Arguments, io: &mut Streams<'_>) -> Result<Ending> {
        let act = person::act(self.how.why.as_deref());
        let which = self.choice.all()?;
        if self.pace.detach {
            return match db.create_run(&which, &self.run_options(), &act)? {
                Some(run) => {
                    warn(&run.unserved, io);
                    detached(&run, db, arguments, io)
                }
                None => Ok(nothing(io)),
            };
        }
        match db.start_run(&which, &self.run_options(), &act)? {
            Some((run, driver)) => {
                warn(&run.unserved, io);
                follow(db, run.id, Some(driver), arguments, io)
            }
            None => Ok(nothing(io)),
        }
    }
}

/// Tells of a run that the workers drive.
fn detached(
    run: &CreatedRun,
    db: &Database,
    arguments: &Arguments,
    io: &mut Streams<'_>,
) -> Result<Ending> {
    if arguments.json {
        if let Some(run) = db.run(run.id)? {
            json_line(io.out, &RunLine::of(&run))?;
        }
    } else {
        writeln!(
            io.out,
            "run {} has {}; the workers drive it: redrive dlq runs show {}",
            run.id,
            counted(run.letters, "letter"),
            run.id
        )?;
    }
    Ok(Ending::Done)
}

fn nothing(io: &mut Streams<'_>) -> Ending {
    io.say("no open letter matches");
    Ending::NothingMatched
}

fn groups(preview: &Preview, io: &mut Streams<'_>) -> Result<()> {
    let mut table = Table::new([
        Column::Number("GROUP"),
        Column::Number("LETTERS"),
        Column::Text("QUEUE"),
        Column::Text("KIND"),
        Column::Text("ERROR"),
    ]);
    for group in preview.groups.iter().take(GROUPS) {
        table.row([
            group.group.to_string(),
            grouped(group.letters),
            group.queue.clone(),
            group.kind.clone(),
            format!("{}: {}", group.error_class, group.title),
        ]);
    }
    if !preview.groups.is_empty() {
        table.write(io.out)?;
        let more = preview.groups.len().saturating_sub(GROUPS) as u64;
        if more > 0 {
            writeln!(io.out, "and {} more", counted(more, "group"))?;
        }
        writeln!(io.out)?;
    }
    Ok(())
}

/// Warns of letters that would wait where nobody takes them.
fn warn(unserved: &[Unserved], io: &mut Streams<'_>) {
    for waiting in unserved {
        io.say(format!(
            "warning: no live worker of queue `{}` takes kind `{}`: {} would wait there",
            waiting.queue,
            waiting.kind,
            counted(waiting.letters, "letter")
        ));
    }
}

fn unserved_json(unserved: &[Unserved]) -> Vec<serde_json::Value> {
    unserved
        .iter()
        .map(|waiting| {
            json!({
                "queue": waiting.queue,
                "kind": waiting.kind,
                "letters": waiting.letters,
            })
        })
        .collect()
}

fn report(done: &Redriven, arguments: &Arguments, io: &mut Streams<'_>) -> Result<()> {
    let redriven = done.redriven.len() as u64;
    if arguments.json {
        let skipped: Vec<i64> = done.skipped.iter().map(|(id, _)| JobId::get(*id)).collect();
        return json_line(
            io.out,
            &json!({
                "redriven": redriven,
                "skipped": skipped,
                "unserved": unserved_json(&done.unserved),
            }),
        );
    }
    Ok(writeln!(
        io.out,
        "{} redriven",
        counted(redriven, "letter")
    )?)
}
