//! `redrive job`: one job that has not ended.

use clap::{Args, Subcommand};
use redrive::admin::{Cancelled, JobState, LiveJob};
use redrive::{Database, JobId};
use serde::Serialize;
use serde_json::json;
use serde_json::value::RawValue;

use crate::context::{Context, Ending};
use crate::error::Result;
use crate::letter::{AttemptLine, print_attempts};
use crate::profession::Profession;
use crate::terminal::{clean, json_line, one_line, pretty, write_labelled};
use crate::time::{ago, rfc3339};

/// Show or cancel a job, or change its priority
#[derive(Args, Debug)]
pub(crate) struct JobCommand {
    #[command(subcommand)]
    subcommand: JobSubcommand,
}

#[derive(Debug, Subcommand)]
enum JobSubcommand {
    /// Show the state, payload and failed attempts of a job
    #[command(before_help = "Example:\n  redrive job show 42\n")]
    Show {
        /// The id of the job.
        id: JobId,
    },
    /// Cancel a job
    ///
    /// A waiting job becomes a dead letter at once, with the cause `manual`. The handler of a
    /// running job is asked to stop; if it succeeds first, the job is done.
    #[command(before_help = "Example:\n  redrive job cancel 42\n")]
    Cancel {
        /// The id of the job.
        id: JobId,
    },
    /// Change the priority of a waiting job
    #[command(before_help = "Example:\n  redrive job set 42 --priority 100\n")]
    Set {
        /// The id of the job.
        id: JobId,
        /// New priority, from -1000 to 1000. Jobs with a higher priority run first.
        #[arg(long, allow_negative_numbers = true, value_parser = clap::value_parser!(i16).range(-1000..=1000))]
        priority: i16,
    },
}

impl JobCommand {
    /// The role that the command needs.
    pub(crate) fn profession(&self) -> Profession {
        match matches!(self.subcommand, JobSubcommand::Show { .. }) {
            true => Profession::Reader,
            false => Profession::Operator,
        }
    }

    pub(crate) fn run(&self, cx: &mut Context<'_>) -> Result<Ending> {
        let db = cx.database()?;
        match self.subcommand {
            JobSubcommand::Show { id } => show(&db, id, cx),
            JobSubcommand::Cancel { id } => cancel(&db, id, cx),
            JobSubcommand::Set { id, priority } => set_priority(&db, id, priority, cx),
        }
    }
}

fn show(db: &Database, id: JobId, cx: &mut Context<'_>) -> Result<Ending> {
    let Some(job) = db.admin().job(id)? else {
        return not_found(db, id, cx);
    };
    if cx.global.json {
        json_line(cx.out, &JobLine::of(&job))?;
        return Ok(Ending::Done);
    }
    let state = match job.state {
        JobState::Delayed => format!("delayed until {}", rfc3339(job.since)),
        JobState::Ready | JobState::Leased | _ => format!("{} for {}", job.state, ago(job.since)),
    };
    writeln!(cx.out, "job {id}: {state}\n")?;
    for (name, value) in details(&job) {
        write_labelled(cx.out, &format!("  {name:<11} "), &one_line(&value))?;
    }
    if !job.history.is_empty() {
        writeln!(cx.out, "\nTimeline:")?;
        print_attempts(cx.out, &job.history)?;
    }
    writeln!(cx.out, "\nPayload:\n{}", clean(&pretty(job.payload.get())))?;
    Ok(Ending::Done)
}

fn details(job: &LiveJob) -> Vec<(&'static str, String)> {
    let mut details = vec![
        ("queue", job.queue.clone()),
        ("kind", job.kind.clone()),
        ("priority", job.priority.to_string()),
        (
            "attempts",
            format!("{} of {}", job.attempts, job.max_attempts),
        ),
    ];
    if job.generation > 0 {
        details.push(("generation", job.generation.to_string()));
    }
    if job.crashes > 0 {
        details.push(("crashes", format!("{} workers died", job.crashes)));
    }
    if let Some(worker) = job.worker {
        let host = job.host.as_deref().unwrap_or("an unknown host");
        details.push(("worker", format!("{worker} on {host}")));
    }
    if let Some(key) = &job.unique_key {
        details.push(("unique key", key.clone()));
    }
    if let Some(since) = job.outage_since {
        details.push(("outage", format!("for {}", ago(since))));
    }
    details.push((
        "enqueued",
        format!(
            "{} ({} ago)",
            rfc3339(job.enqueued_at),
            ago(job.enqueued_at)
        ),
    ));
    details
}

fn cancel(db: &Database, id: JobId, cx: &mut Context<'_>) -> Result<Ending> {
    let (word, text) = match db.admin().cancel(id)? {
        Cancelled::Dead => (
            "dead",
            format!("job {id} was cancelled; it is a dead letter"),
        ),
        Cancelled::Asked => (
            "asked",
            format!("job {id} is running; its handler was asked to stop"),
        ),
        Cancelled::NotLive | _ => return not_found(db, id, cx),
    };
    if cx.global.json {
        json_line(cx.out, &json!({ "id": id.get(), "cancelled": word }))?;
    } else {
        writeln!(cx.out, "{text}")?;
    }
    Ok(Ending::Done)
}

fn set_priority(db: &Database, id: JobId, priority: i16, cx: &mut Context<'_>) -> Result<Ending> {
    if !db.admin().set_priority(id, priority)? {
        let Some(job) = db.admin().job(id)? else {
            return not_found(db, id, cx);
        };
        cx.say(format!(
            "job {id} is {}; its priority cannot change",
            job.state
        ));
        return Ok(Ending::NothingMatched);
    }
    if cx.global.json {
        json_line(cx.out, &json!({ "id": id.get(), "priority": priority }))?;
    } else {
        writeln!(cx.out, "job {id} now has priority {priority}")?;
    }
    Ok(Ending::Done)
}

/// Reports that no such job exists, and points to its letter.
fn not_found(db: &Database, id: JobId, cx: &mut Context<'_>) -> Result<Ending> {
    cx.say(match db.dlq().get(id)? {
        Some(letter) => format!(
            "job {id} has ended; its letter is {}: redrive dlq show {id}",
            letter.state
        ),
        None => format!("job {id} does not exist, or it is done"),
    });
    Ok(Ending::NothingMatched)
}

/// A job as one line of JSON.
#[derive(Serialize)]
struct JobLine<'a> {
    id: i64,
    queue: &'a str,
    kind: &'a str,
    state: &'a str,
    priority: i16,
    attempts: u32,
    max_attempts: u32,
    generation: u32,
    crashes: u32,
    since: String,
    enqueued_at: String,
    worker: Option<String>,
    host: Option<&'a str>,
    unique_key: Option<&'a str>,
    outage_since: Option<String>,
    history: Vec<AttemptLine<'a>>,
    payload: &'a RawValue,
}

impl JobLine<'_> {
    fn of(job: &LiveJob) -> JobLine<'_> {
        JobLine {
            id: job.id.get(),
            queue: &job.queue,
            kind: &job.kind,
            state: job.state.as_str(),
            priority: job.priority,
            attempts: job.attempts,
            max_attempts: job.max_attempts,
            generation: job.generation,
            crashes: job.crashes,
            since: rfc3339(job.since),
            enqueued_at: rfc3339(job.enqueued_at),
            worker: job.worker.map(|worker| worker.to_string()),
            host: job.host.as_deref(),
            unique_key: job.unique_key.as_deref(),
            outage_since: job.outage_since.map(rfc3339),
            history: job.history.iter().map(AttemptLine::of).collect(),
            payload: &job.payload,
        }
    }
}
