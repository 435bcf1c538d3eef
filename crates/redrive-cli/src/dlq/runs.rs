//! `redrive dlq runs`: redrive runs.

mod show;

use clap::{Args, Subcommand};
use redrive::Database;
use redrive::dlq::runs::{RunChange, RunId, RunState};

use super::follow::follow;
use super::patience::{MaxWait, WaitArgs};
use super::run_report::{RunLine, queue_and_conditions, skips};
use crate::context::{Context, Ending};
use crate::error::Result;
use crate::operator;
use crate::profession::Profession;
use crate::terminal::{Column, Table, grouped, json_line};
use crate::time::ago;
use show::show;

/// List, show, watch, approve, pause, resume and cancel redrive runs
#[derive(Args, Debug)]
pub(super) struct RunsCommand {
    #[command(subcommand)]
    subcommand: RunsSubcommand,
}

#[derive(Debug, Subcommand)]
enum RunsSubcommand {
    List(ListRuns),
    Show(show::ShowRun),
    /// Pause a run; letters that have not been sent wait
    #[command(
        before_help = "Example:\n  redrive dlq runs pause 7 --reason 'the gateway is slow'\n"
    )]
    Pause(ChangeRun),
    /// Approve a run of another operator that is too large for one; the workers drive it
    #[command(
        before_help = "Example:\n  redrive dlq runs approve 7 --reason 'checked the sample'\n"
    )]
    Approve(ChangeRun),
    Resume(ResumeRun),
    Watch(WatchRun),
    /// End a run; letters that have not been sent stay open
    #[command(before_help = "Example:\n  redrive dlq runs cancel 7 --reason 'wrong filter'\n")]
    Cancel(ChangeRun),
}

/// List runs, newest first
#[derive(Args, Debug)]
#[command(before_help = "Example:\n  redrive dlq runs list\n")]
struct ListRuns {
    /// At most this many runs.
    #[arg(long, value_name = "N", default_value_t = 20, allow_negative_numbers = true, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    limit: u32,
}

/// A run, and the reason for its new state.
#[derive(Args, Debug)]
#[group(skip)]
struct ChangeRun {
    /// The id of the run.
    id: RunId,
    /// The reason, for the audit log.
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
}

/// Continue a run that is paused, halted or without a driver
///
/// This command drives the run and waits for the outcomes. If another process already drives it,
/// this command only watches. A halted run starts over with its canary.
#[derive(Args, Debug)]
#[command(before_help = "Example:\n  redrive dlq runs resume 7\n")]
struct ResumeRun {
    #[command(flatten)]
    change: ChangeRun,
    #[command(flatten)]
    wait: WaitArgs,
    /// Let the workers drive the run, and do not wait.
    #[arg(long)]
    detach: bool,
}

/// Wait for the outcomes of a run
///
/// Reports every 10 seconds what the run waits for, and exits with 1 if more letters died again than
/// the run tolerates, or if it does not finish. This command drives nothing: Ctrl-C leaves the run
/// unchanged.
#[derive(Args, Debug)]
#[command(before_help = "Example:\n  redrive dlq runs watch 7\n")]
struct WatchRun {
    /// The id of the run.
    id: RunId,
    #[command(flatten)]
    limit: MaxWait,
}

impl RunsCommand {
    /// The role that the command needs.
    pub(super) fn profession(&self) -> Profession {
        match self.subcommand {
            RunsSubcommand::List(_) | RunsSubcommand::Show(_) | RunsSubcommand::Watch(_) => {
                Profession::Reader
            }
            RunsSubcommand::Pause(_)
            | RunsSubcommand::Approve(_)
            | RunsSubcommand::Resume(_)
            | RunsSubcommand::Cancel(_) => Profession::Operator,
        }
    }

    pub(super) fn run(&self, cx: &mut Context<'_>) -> Result<Ending> {
        let db = cx.database()?;
        match &self.subcommand {
            RunsSubcommand::List(list) => list.run(&db, cx),
            RunsSubcommand::Show(command) => command.run(&db, cx),
            RunsSubcommand::Pause(ChangeRun { id, reason }) => {
                let change = db
                    .dlq()
                    .runs()
                    .pause(*id, &operator::current(reason.as_deref()))?;
                report(*id, change, &db, cx)
            }
            RunsSubcommand::Approve(ChangeRun { id, reason }) => {
                let operator = operator::current(reason.as_deref());
                let change = db.dlq().runs().approve(*id, &operator)?;
                report(*id, change, &db, cx)
            }
            RunsSubcommand::Cancel(ChangeRun { id, reason }) => {
                let change = db
                    .dlq()
                    .runs()
                    .cancel(*id, &operator::current(reason.as_deref()))?;
                report(*id, change, &db, cx)
            }
            RunsSubcommand::Resume(resume) => resume.run(&db, cx),
            RunsSubcommand::Watch(watch) => watch.run(&db, cx),
        }
    }
}

impl ListRuns {
    fn run(&self, db: &Database, cx: &mut Context<'_>) -> Result<Ending> {
        let runs = db.dlq().runs().list(self.limit)?;
        if runs.is_empty() {
            cx.say("there are no redrive runs");
            return Ok(Ending::NothingMatched);
        }
        if cx.global.json {
            for run in &runs {
                json_line(cx.out, &RunLine::of(run, &skips(run, db)?))?;
            }
            return Ok(Ending::Done);
        }
        let mut table = Table::new([
            Column::Number("RUN"),
            Column::Word("STATE"),
            Column::Text("QUEUE"),
            Column::Number("LETTERS"),
            Column::Number("SENT"),
            Column::Number("RECOVERED"),
            Column::Number("DIED"),
            Column::Number("AGE"),
            Column::Text("FILTER AND REASON"),
        ]);
        for run in &runs {
            let (queue, conditions) = queue_and_conditions(run);
            let about: Vec<String> = conditions.into_iter().chain(run.reason.clone()).collect();
            table.row([
                run.id.to_string(),
                run.state.to_string(),
                queue,
                grouped(run.total),
                grouped(run.sent),
                grouped(run.recovered),
                grouped(run.died()),
                ago(run.created_at),
                about.join(": "),
            ]);
        }
        table.write(cx.out)?;
        Ok(Ending::Done)
    }
}

impl ResumeRun {
    fn run(&self, db: &Database, cx: &mut Context<'_>) -> Result<Ending> {
        let ChangeRun { id, reason } = &self.change;
        let change = db
            .dlq()
            .runs()
            .resume(*id, &operator::current(reason.as_deref()))?;
        if change.is_some_and(|change| change.became == RunState::Running) && !self.detach {
            let driver = db.dlq().runs().drive(*id)?;
            if driver.is_none() {
                cx.say(format!("another process drives run {id}; watching it"));
            }
            let delay = db.dlq().runs().get(*id)?.and_then(|run| run.delay);
            return follow(db, *id, driver, self.wait.patience(delay), cx);
        }
        match change {
            // Resuming a running run hands it to the workers.
            Some(change) if change.became == RunState::Running => show(*id, db, cx),
            change => report(*id, change, db, cx),
        }
    }
}

impl WatchRun {
    fn run(&self, db: &Database, cx: &mut Context<'_>) -> Result<Ending> {
        match db.dlq().runs().get(self.id)? {
            Some(run) => follow(db, self.id, None, self.limit.patience(run.delay), cx),
            None => Ok(no_run(self.id, cx)),
        }
    }
}

fn no_run(id: RunId, cx: &mut Context<'_>) -> Ending {
    cx.say(format!("run {id} does not exist"));
    Ending::NothingMatched
}

/// Prints the run after a change. A run that has ended cannot change.
fn report(
    id: RunId,
    change: Option<RunChange>,
    db: &Database,
    cx: &mut Context<'_>,
) -> Result<Ending> {
    match change {
        Some(change) if change.was == change.became => {
            cx.say(format!("run {id} is {}; nothing was changed", change.was));
            Ok(Ending::NothingMatched)
        }
        _ => show(id, db, cx),
    }
}
