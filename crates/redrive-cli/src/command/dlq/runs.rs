//! `redrive dlq runs`: redrive runs: list, show, pause, resume, cancel.

use clap::{Args, Subcommand};
use redrive::{Database, RunChange, RunId, RunState};

use super::drive::follow;
use crate::args::Arguments;
use crate::connect::{self, Patience};
use crate::duration::ago;
use crate::error::Result;
use crate::person;
use crate::render::{grouped, json_line};
use crate::run::{RunLine, story};
use crate::table::{Column, Table};
use crate::{Ending, Streams};

/// Redrive runs: list and show them, pause, resume or cancel one.
#[derive(Args, Debug)]
pub(crate) struct Runs {
    #[command(subcommand)]
    act: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    List(List),
    Show(Show),
    Pause(Pause),
    Resume(Resume),
    Cancel(Cancel),
}

/// List runs, the newest first.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  redrive dlq runs list")]
struct List {
    /// How many at most.
    #[arg(long, default_value_t = 20, allow_negative_numbers = true, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    limit: u32,
}

/// Show what became of the letters of a run.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  redrive dlq runs show 7")]
struct Show {
    /// The run.
    id: RunId,
}

/// Pause a run: what was sent is sent, the rest waits.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  redrive dlq runs pause 7 --why 'the gateway is slow'")]
struct Pause {
    /// The run.
    id: RunId,
    /// Why, for the audit.
    #[arg(long, value_name = "TEXT")]
    why: Option<String>,
}

/// Go on with a run that is paused or halted, or whose driver is gone.
///
/// This command drives it, unless somebody does; then it watches. A run that halted by itself
/// begins with its canary again.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  redrive dlq runs resume 7")]
struct Resume {
    /// The run.
    id: RunId,
    /// Why, for the audit.
    #[arg(long, value_name = "TEXT")]
    why: Option<String>,
    /// Leave it to the workers to drive.
    #[arg(long)]
    detach: bool,
}

/// End a run: what was sent is sent, the rest stays open.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  redrive dlq runs cancel 7 --why 'wrong filter'")]
struct Cancel {
    /// The run.
    id: RunId,
    /// Why, for the audit.
    #[arg(long, value_name = "TEXT")]
    why: Option<String>,
}

impl Runs {
    pub(crate) fn run(&self, arguments: &Arguments, io: &mut Streams<'_>) -> Result<Ending> {
        let db = connect::database(arguments, Patience::Minute, io)?;
        match &self.act {
            Verb::List(list) => list.run(&db, arguments, io),
            Verb::Show(show) => tell(show.id, &db, arguments, io),
            Verb::Pause(pause) => {
                let change = db.pause_run(pause.id, &person::act(pause.why.as_deref()))?;
                changed(pause.id, change, &db, arguments, io)
            }
            Verb::Cancel(cancel) => {
                let change = db.cancel_run(cancel.id, &person::act(cancel.why.as_deref()))?;
                changed(cancel.id, change, &db, arguments, io)
            }
            Verb::Resume(resume) => resume.run(&db, arguments, io),
        }
    }
}

impl List {
    fn run(&self, db: &Database, arguments: &Arguments, io: &mut Streams<'_>) -> Result<Ending> {
        let runs = db.runs(self.limit)?;
        if runs.is_empty() {
            io.say("there is no redrive run");
            return Ok(Ending::NothingMatched);
        }
        let mut table = Table::new([
            Column::Number("RUN"),
            Column::Text("STATE"),
            Column::Number("LETTERS"),
            Column::Number("SENT"),
            Column::Number("RECOVERED"),
            Column::Number("DIED"),
            Column::Number("AGE"),
            Column::Text("WHY"),
        ]);
        for run in &runs {
            if arguments.json {
                json_line(io.out, &RunLine::of(run))?;
                continue;
            }
            table.row([
                run.id.to_string(),
                run.state.to_string(),
                grouped(run.total),
                grouped(run.sent),
                grouped(run.recovered),
                grouped(run.died_alike + run.died_differently),
                ago(run.created_at),
                run.why
                    .clone()
                    .unwrap_or_else(|| run.filter.get().to_owned()),
            ]);
        }
        if !arguments.json {
            table.write(io.out)?;
        }
        Ok(Ending::Done)
    }
}

impl Resume {
    fn run(&self, db: &Database, arguments: &Arguments, io: &mut Streams<'_>) -> Result<Ending> {
        let change = db.resume_run(self.id, &person::act(self.why.as_deref()))?;
        if change.is_some_and(|change| change.became == RunState::Running) && !self.detach {
            let driver = db.drive_run(self.id)?;
            if driver.is_none() {
                io.say(format!("somebody drives run {}: watching", self.id));
            }
            return follow(db, self.id, driver, arguments, io);
        }
        match change {
            // It ran already; now the workers know.
            Some(change) if change.became == RunState::Running => tell(self.id, db, arguments, io),
            change => changed(self.id, change, db, arguments, io),
        }
    }
}

/// Tells what a change did; a run that is over stays as it is.
fn changed(
    id: RunId,
    change: Option<RunChange>,
    db: &Database,
    arguments: &Arguments,
    io: &mut Streams<'_>,
) -> Result<Ending> {
    match change {
        Some(change) if change.was == change.became => {
            io.say(format!("run {id} is {}: nothing was changed", change.was));
            Ok(Ending::NothingMatched)
        }
        _ => tell(id, db, arguments, io),
    }
}

fn tell(id: RunId, db: &Database, arguments: &Arguments, io: &mut Streams<'_>) -> Result<Ending> {
    let Some(run) = db.run(id)? else {
        io.say(format!("there is no redrive run {id}"));
        return Ok(Ending::NothingMatched);
    };
    if arguments.json {
        json_line(io.out, &RunLine::of(&run))?;
    } else {
        story(&run, &db.run_skips(id)?, io.out)?;
    }
    Ok(Ending::Done)
}
