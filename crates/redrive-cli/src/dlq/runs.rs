//! `redrive dlq runs`: redrive runs.

mod show;

use redrive::dlq::runs::{RedriveRun, RunAction, RunChange, RunId, RunState};

use super::follow::{MaxWait, follow};
use super::run_report::{filter, run_line};
use crate::prelude::*;

pub(super) use show::show;

subcommands! {
    /// List, show, watch, approve, pause, resume and cancel redrive runs
    pub(super) enum RunsCommand {
        List(ListRuns),
        Show(show::ShowRun),
        /// Pause a run; letters that have not been sent wait
        #[command(before_help = "Example:\n  redrive dlq runs pause 7 --reason 'the gateway is slow'\n")]
        Pause(ChangeRun).run(RunAction::Pause),
        /// Approve a run of another operator that is too large for one; the workers drive it
        #[command(before_help = "Example:\n  redrive dlq runs approve 7 --reason 'checked the sample'\n")]
        Approve(ChangeRun).run(RunAction::Approve),
        Resume(ResumeRun),
        Watch(WatchRun),
        /// End a run; letters that have not been sent stay open
        #[command(before_help = "Example:\n  redrive dlq runs cancel 7 --reason 'wrong filter'\n")]
        Cancel(ChangeRun).run(RunAction::Cancel),
    }
}

/// The most runs in a list.
const MAX_RUNS: u64 = 10_000;

/// List runs, newest first
#[derive(Args, Debug)]
#[command(before_help = "Example:\n  redrive dlq runs list\n")]
pub(crate) struct ListRuns {
    /// At most this many runs.
    #[arg(long, value_name = "N", default_value_t = 20, allow_negative_numbers = true, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    limit: u32,
}

/// A run, and the reason for its new state.
#[derive(Args, Debug)]
#[group(skip)]
pub(crate) struct ChangeRun {
    /// The id of the run.
    id: RunId,
    #[command(flatten)]
    reason: Reason,
}

/// Continue a run that is paused, halted or without a driver
///
/// This command drives the run and waits for the outcomes. If another process already drives it,
/// this command only watches. A halted run starts over with its canary.
#[derive(Args, Debug)]
#[command(before_help = "Example:\n  redrive dlq runs resume 7\n")]
pub(crate) struct ResumeRun {
    #[command(flatten)]
    change: ChangeRun,
    #[command(flatten)]
    wait: MaxWait,
    /// Let the workers drive the run, and do not wait.
    #[arg(long, conflicts_with = "max_wait")]
    detach: bool,
}

/// Wait for the outcomes of a run
///
/// Reports every 10 seconds what the run waits for, and exits with 1 if it skipped a letter, if more letters
/// died again than it tolerates, or if it does not finish. This command drives nothing: Ctrl-C leaves the
/// run unchanged.
#[derive(Args, Debug)]
#[command(before_help = "Example:\n  redrive dlq runs watch 7\n")]
pub(crate) struct WatchRun {
    /// The id of the run.
    id: RunId,
    #[command(flatten)]
    wait: MaxWait,
}

impl ChangeRun {
    fn run(&self, action: RunAction, cx: &mut Context<'_>) -> Result<Ending> {
        let change = self.change(action, &cx.database()?)?;
        report(self.id, change, cx)
    }

    fn change(&self, action: RunAction, db: &Database) -> redrive::Result<Option<RunChange>> {
        let operator = self.reason.operator();
        db.dlq().runs().change(self.id, action, &operator)
    }
}

impl ListRuns {
    fn run(&self, cx: &mut Context<'_>) -> Result<Ending> {
        let mut runs = cx.database()?.dlq().runs().list(self.limit + 1)?;
        let more = More::than(self.limit, MAX_RUNS, "runs", &mut runs);
        let about = |run: &RedriveRun| match &run.reason {
            Some(reason) => format!("{}: {reason}", filter(run)),
            None => filter(run),
        };
        let table = table!(run in &runs => {
            Number "RUN" => run.id,
            Word "STATE" => run.state,
            Number "LETTERS" => grouped(run.total),
            Number "SENT" => grouped(run.sent),
            Number "RECOVERED" => grouped(run.recovered),
            Number "DIED" => grouped(run.died()),
            Number "AGE" => ago(run.created_at),
            Text "FILTER AND REASON" => about(run),
        });
        let json = |run| run_line(run, None, None);
        cx.list_some(&more, "there are no redrive runs", &runs, json, &table)
    }
}

impl ResumeRun {
    fn run(&self, cx: &mut Context<'_>) -> Result<Ending> {
        let (db, id) = (cx.database()?, self.change.id);
        let change = self.change.change(RunAction::Resume, &db)?;
        if change.is_some_and(|change| change.became == RunState::Running) && !self.detach {
            let driver = db.dlq().runs().drive(id)?;
            if driver.is_none() {
                cx.say(format!("another process drives run {id}; watching it"));
            }
            // It is resumed, whether or not this can be read.
            let run = db.dlq().runs().get(id).ok().flatten();
            let (letters, delay) = run.map_or((0, None), |run| (run.total, run.delay));
            return follow((id, letters), driver, self.wait.patience(delay, cx), cx);
        }
        match change {
            // Resuming a running run hands it to the workers.
            Some(change) if change.became == RunState::Running => show(id, cx),
            change => report(id, change, cx),
        }
    }
}

impl WatchRun {
    fn run(&self, cx: &mut Context<'_>) -> Result<Ending> {
        let db = cx.database()?;
        match db.dlq().runs().get(self.id)? {
            Some(run) => follow(
                (self.id, run.total),
                None,
                self.wait.patience(run.delay, cx),
                cx,
            ),
            None => no_run(self.id, cx),
        }
    }
}

fn no_run(id: RunId, cx: &mut Context<'_>) -> Result<Ending> {
    cx.nothing(format!("run {id} does not exist"))
}

/// Prints the run after a change. A run that has ended cannot change.
fn report(id: RunId, change: Option<RunChange>, cx: &mut Context<'_>) -> Result<Ending> {
    match change {
        Some(change) if change.was == change.became => {
            cx.nothing(format!("run {id} is {}; nothing was changed", change.was))
        }
        _ => show(id, cx),
    }
}
