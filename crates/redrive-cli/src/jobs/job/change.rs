//! `redrive job cancel`, `priority` and `run-now`.

use clap::Args;
use redrive::admin::{Cancelled, JobChange, JobCount, JobFilter, JobState};
use redrive::{Database, JobId};
use serde_json::json;

use super::report::{left_out_jobs, matching, write_sample};
use super::show::not_found;
use crate::batches::in_batches;
use crate::context::{Context, Ending};
use crate::dlq::{LeftOut, left_out_json, write_left_out};
use crate::error::Result;
use crate::operator;
use crate::selection::Bulk;
use crate::stopped::Stopped;
use crate::terminal::{counted, grouped, json_line};

const AFTER_HELP: &str = "\
Ctrl-C stops after the current batch of 500 jobs and prints how many were changed.
The exit code is 1 then, and if nothing matches or a job given by id does not change.";

/// Cancel jobs
///
/// Waiting jobs become dead letters, with the cause `manual`. Without --yes this is a dry run; jobs
/// given by id are cancelled at once. Running jobs are left out unless they are given by id: then
/// the handler is asked to stop, and if it succeeds first, the job is done.
#[derive(Args, Debug)]
#[command(
    before_help = "\
Examples:
  redrive job cancel 42
  redrive job cancel orders kind=order.test --reason 'test orders' --yes
",
    after_help = AFTER_HELP
)]
pub(crate) struct Cancel {
    #[command(flatten)]
    selection: Bulk,
}

/// Set the priority of waiting jobs
///
/// Without --yes this is a dry run; jobs given by id change at once. Running jobs are left out.
#[derive(Args, Debug)]
#[command(
    before_help = "\
Examples:
  redrive job priority 100 42
  redrive job priority -5 orders kind=report --yes
",
    after_help = AFTER_HELP
)]
pub(crate) struct Priority {
    /// New priority, from -1000 to 1000. Jobs with a higher priority run first.
    #[arg(allow_negative_numbers = true, value_parser = clap::value_parser!(i16).range(-1000..=1000))]
    priority: i16,
    #[command(flatten)]
    selection: Bulk,
}

/// Make delayed jobs ready now
///
/// Without --yes this is a dry run; jobs given by id become ready at once. Scheduled, snoozed and
/// retried jobs are delayed. Ready and running jobs are left out.
#[derive(Args, Debug)]
#[command(
    before_help = "\
Examples:
  redrive job run-now 42
  redrive job run-now orders 'attempts>=1' --yes
",
    after_help = AFTER_HELP
)]
pub(crate) struct RunNow {
    #[command(flatten)]
    selection: Bulk,
}

impl Cancel {
    pub(super) fn run(&self, cx: &mut Context<'_>) -> Result<Ending> {
        run(&self.selection, JobChange::Cancel, cx)
    }
}

impl Priority {
    pub(super) fn run(&self, cx: &mut Context<'_>) -> Result<Ending> {
        run(&self.selection, JobChange::SetPriority(self.priority), cx)
    }
}

impl RunNow {
    pub(super) fn run(&self, cx: &mut Context<'_>) -> Result<Ending> {
        run(&self.selection, JobChange::RunNow, cx)
    }
}

/// Change the priority of one waiting job; see `priority`
#[derive(Args, Debug)]
#[command(before_help = "Example:\n  redrive job set 42 --priority 100\n")]
pub(crate) struct SetPriority {
    /// The id of the job.
    id: JobId,
    /// New priority, from -1000 to 1000. Jobs with a higher priority run first.
    #[arg(long, allow_negative_numbers = true, value_parser = clap::value_parser!(i16).range(-1000..=1000))]
    priority: i16,
}

impl SetPriority {
    pub(super) fn run(&self, cx: &mut Context<'_>) -> Result<Ending> {
        let db = cx.database()?;
        let change = JobChange::SetPriority(self.priority);
        let filter = JobFilter::new().ids([self.id]);
        let operator = operator::current(None);
        let changed = db.admin().jobs().change(&filter, change, &operator)?;
        match changed.jobs.is_empty() {
            false => say_changed(self.id, change, cx),
            true => explain(self.id, change, &db, cx),
        }
    }
}

fn run(selection: &Bulk, change: JobChange, cx: &mut Context<'_>) -> Result<Ending> {
    let db = cx.database()?;
    match (selection.is_dry_run(), selection.ids().is_empty()) {
        (true, _) => dry_run(selection, change, &db, cx),
        (false, true) => change_matching(selection, change, &db, cx),
        (false, false) => change_ids(selection, change, &db, cx),
    }
}

fn dry_run(
    selection: &Bulk,
    change: JobChange,
    db: &Database,
    cx: &mut Context<'_>,
) -> Result<Ending> {
    let filter = selection.jobs()?;
    let (count, changeable) = db.admin().jobs().preview(&filter, change)?;
    let (_, affected) = db
        .admin()
        .jobs()
        .preview(&selection.limited_jobs()?, change)?;
    let left_out = left_out(&count, changeable, change);
    let of = words(change);
    if cx.global.json {
        json_line(
            cx.out,
            &json!({
                "dry_run": true,
                "action": of.action,
                "jobs": affected,
                "matching": count.jobs(),
                "skipped": left_out_json("jobs", &left_out),
            }),
        )?;
    } else if count.jobs() > 0 {
        let matching = matching(count.jobs());
        writeln!(
            cx.out,
            "{matching}; {} would be {}.\n",
            grouped(affected),
            of.participle
        )?;
        write_left_out("job", &left_out, cx.out)?;
    }
    if count.jobs() == 0 {
        return cx.nothing(format!("no live job matches {filter}"));
    }
    if affected > 0 && !cx.global.json {
        write_sample(db.admin().jobs().list(&filter)?, of.takes, cx)?;
        writeln!(cx.out)?;
        let command = format!("redrive job {}", of.command);
        cx.propose(&selection.command_line(&command, selection.reason(), &[]))?;
    }
    Ok(match affected {
        0 => Ending::NothingMatched,
        _ => Ending::Done,
    })
}

/// Changes all matching jobs in batches, until a signal arrives.
fn change_matching(
    selection: &Bulk,
    change: JobChange,
    db: &Database,
    cx: &mut Context<'_>,
) -> Result<Ending> {
    let filter = selection.jobs()?;
    let jobs = db.admin().jobs();
    let (count, changeable) = jobs.preview(&filter, change)?;
    let (_, total) = jobs.preview(&selection.limited_jobs()?, change)?;
    let words = words(change);
    let mut audit = None;
    // As many as match now, so that jobs that are enqueued meanwhile cannot prolong the command.
    let limited = filter.clone().limit(total);
    let (done, course, changed) = in_batches(words.progressive, total, |go_on| {
        jobs.change_while(&limited, change, &selection.operator(), |so_far| {
            audit = so_far.audit;
            go_on(so_far.jobs.len() as u64)
        })
    })?;
    let undo = match change {
        JobChange::Cancel => {
            audit.map(|audit| format!("undo: redrive dlq redrive audit={audit} --yes"))
        }
        JobChange::SetPriority(_) | JobChange::RunNow | _ => None,
    };
    let stopped = Stopped {
        done,
        total,
        participle: words.participle,
        undo,
    };
    changed.inspect_err(|_| stopped.say_after_error("job", cx))?;
    let left_out = left_out(&count, changeable, change);
    if cx.global.json || count.jobs() > 0 {
        cx.print(
            &json!({
                "action": words.action,
                "jobs": done,
                "skipped": left_out_json("jobs", &left_out),
                "audit": audit,
            }),
            format!("{} {}", counted(done, "job"), words.participle),
        )?;
    }
    if !cx.global.json {
        write_left_out("job", &left_out, cx.out)?;
    }
    match done {
        _ if course.is_break() && done < total => stopped.say("job", cx),
        _ if count.jobs() == 0 => cx.nothing(format!("no live job matches {filter}")),
        0 => Ok(Ending::NothingMatched),
        _ => Ok(Ending::Done),
    }
}

/// Changes the jobs given by id, and explains why others did not change.
fn change_ids(
    selection: &Bulk,
    change: JobChange,
    db: &Database,
    cx: &mut Context<'_>,
) -> Result<Ending> {
    let filter = selection.jobs()?;
    let jobs = db.admin().jobs();
    let changed = jobs.change(&selection.limited_jobs()?, change, &selection.operator())?;
    let mut ending = Ending::Done;
    for id in selection.ids() {
        let this = match changed.jobs.contains(&id) {
            true => say_changed(id, change, cx)?,
            false
                if db.admin().job(id)?.is_some()
                    && jobs.count(&filter.clone().ids([id]))?.jobs() == 0 =>
            {
                cx.say(format!("job {id} does not match the conditions"));
                Ending::NothingMatched
            }
            false if change == JobChange::Cancel => {
                let how = jobs.cancel(id, &selection.operator())?;
                say_cancelled(id, how, db, cx)?
            }
            false => explain(id, change, db, cx)?,
        };
        if this == Ending::NothingMatched {
            ending = this;
        }
    }
    Ok(ending)
}

/// Says what became of a job that was running a moment ago.
fn say_cancelled(id: JobId, how: Cancelled, db: &Database, cx: &mut Context<'_>) -> Result<Ending> {
    match how {
        Cancelled::Dead => say_changed(id, JobChange::Cancel, cx),
        Cancelled::Asked => cx.print(
            &json!({ "id": id.get(), "cancelled": "asked" }),
            format!("job {id} is running; its handler was asked to stop"),
        ),
        Cancelled::NotLive | _ => not_found(db, id, cx),
    }
}

fn say_changed(id: JobId, change: JobChange, cx: &mut Context<'_>) -> Result<Ending> {
    let (json, text) = match change {
        JobChange::SetPriority(priority) => (
            json!({ "id": id.get(), "priority": priority }),
            format!("job {id} now has priority {priority}"),
        ),
        JobChange::RunNow => (
            json!({ "id": id.get(), "state": "ready" }),
            format!("job {id} is ready now"),
        ),
        JobChange::Cancel | _ => (
            json!({ "id": id.get(), "cancelled": "dead" }),
            format!("job {id} was cancelled; it is a dead letter"),
        ),
    };
    cx.print(&json, text)
}

/// Says why a job did not change.
fn explain(id: JobId, change: JobChange, db: &Database, cx: &mut Context<'_>) -> Result<Ending> {
    let Some(job) = db.admin().job(id)? else {
        return not_found(db, id, cx);
    };
    match change {
        JobChange::SetPriority(priority) if job.priority == priority => say_changed(id, change, cx),
        JobChange::SetPriority(_) => cx.nothing(format!(
            "job {id} is {}; its priority cannot change",
            job.state
        )),
        JobChange::RunNow | JobChange::Cancel | _ => {
            cx.nothing(format!("job {id} is {} already", job.state))
        }
    }
}

/// A change in words.
struct Words {
    /// The subcommand.
    action: &'static str,
    /// The subcommand with its first arguments.
    command: String,
    participle: &'static str,
    progressive: &'static str,
    /// The states of the jobs that it changes.
    takes: &'static [JobState],
}

fn words(change: JobChange) -> Words {
    match change {
        JobChange::SetPriority(priority) => Words {
            action: "priority",
            command: format!("priority {priority}"),
            participle: "given the priority",
            progressive: "setting the priority",
            takes: &[JobState::Ready, JobState::Delayed],
        },
        JobChange::RunNow => Words {
            action: "run-now",
            command: "run-now".to_owned(),
            participle: "made ready",
            progressive: "making ready",
            takes: &[JobState::Delayed],
        },
        JobChange::Cancel | _ => Words {
            action: "cancel",
            command: "cancel".to_owned(),
            participle: "cancelled",
            progressive: "cancelling",
            takes: &[JobState::Ready, JobState::Delayed],
        },
    }
}

/// The matching jobs that a change leaves out, if it changes `changeable` of them.
fn left_out(count: &JobCount, changeable: u64, change: JobChange) -> Vec<LeftOut> {
    let others = count.waiting().saturating_sub(changeable);
    let (running, others) = match change {
        JobChange::SetPriority(priority) => (
            "a worker runs them",
            left_out_jobs(
                others,
                "unchanged",
                format!("they have priority {priority} already"),
            ),
        ),
        JobChange::RunNow => (
            "a worker runs them",
            left_out_jobs(others, "ready", "they are ready already"),
        ),
        JobChange::Cancel | _ => (
            "a worker runs them; `redrive job cancel ID` asks a handler to stop",
            None,
        ),
    };
    let leased = left_out_jobs(count.leased, "leased", running);
    leased.into_iter().chain(others).collect()
}
