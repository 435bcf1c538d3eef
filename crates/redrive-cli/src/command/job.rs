//! `redrive job`: live jobs, one at a time.

use clap::{Args, Subcommand};
use redrive::{Cancelled, Database, JobId, LiveJob, Place};
use serde::Serialize;
use serde_json::json;
use serde_json::value::RawValue;

use crate::args::Arguments;
use crate::connect::{self, Patience};
use crate::duration::{ago, rfc3339};
use crate::error::Result;
use crate::letter::{self, AttemptLine};
use crate::render::{clean, json_line, one_line, pretty};
use crate::{Ending, Streams};

/// Look at a live job, cancel it, or change its priority.
#[derive(Args, Debug)]
pub(crate) struct Job {
    #[command(subcommand)]
    act: Act,
}

#[derive(Debug, Subcommand)]
enum Act {
    /// Show a live job: where it is, its payload, its failed attempts.
    #[command(after_help = "Example:\n  redrive job show 42")]
    Show {
        /// The job.
        id: JobId,
    },
    /// Cancel a job: a waiting one becomes a letter at once, a running one is told to end.
    #[command(after_help = "\
A cancelled job becomes a dead letter with the reason `manual`, unless it succeeds before it
notices.

Example:
  redrive job cancel 42")]
    Cancel {
        /// The job.
        id: JobId,
    },
    /// Change a job that waits.
    #[command(after_help = "Example:\n  redrive job set 42 --priority 100")]
    Set {
        /// The job.
        id: JobId,
        /// Jobs with a higher priority run first; -1000 to 1000.
        #[arg(long, allow_negative_numbers = true, value_parser = clap::value_parser!(i16).range(-1000..=1000))]
        priority: i16,
    },
}

impl Job {
    pub(crate) fn run(&self, arguments: &Arguments, io: &mut Streams<'_>) -> Result<Ending> {
        let db = connect::database(arguments, Patience::Minute, io)?;
        match self.act {
            Act::Show { id } => show(&db, id, arguments, io),
            Act::Cancel { id } => cancel(&db, id, arguments, io),
            Act::Set { id, priority } => set(&db, id, priority, arguments, io),
        }
    }
}

fn show(db: &Database, id: JobId, arguments: &Arguments, io: &mut Streams<'_>) -> Result<Ending> {
    let Some(job) = db.job(id)? else {
        return not_live(db, id, io);
    };
    if arguments.json {
        json_line(io.out, &JobLine::of(&job))?;
        return Ok(Ending::Done);
    }
    let since = match job.place {
        Place::Delayed => format!("delayed until {}", rfc3339(job.since)),
        Place::Ready | Place::Leased => format!("{} for {}", job.place, ago(job.since)),
    };
    let out = &mut *io.out;
    writeln!(out, "job {id}: {since}\n")?;
    writeln!(out, "  queue       {}", one_line(&job.queue))?;
    writeln!(out, "  kind        {}", one_line(&job.kind))?;
    writeln!(out, "  priority    {}", job.priority)?;
    writeln!(
        out,
        "  attempts    {} of {}",
        job.attempts, job.max_attempts
    )?;
    if job.generation > 0 {
        writeln!(out, "  generation  {}", job.generation)?;
    }
    if job.crashes > 0 {
        writeln!(
            out,
            "  crashes     {} (it lost its worker so often)",
            job.crashes
        )?;
    }
    if let Some(worker) = job.worker {
        writeln!(
            out,
            "  worker      {worker} on {}",
            one_line(job.host.as_deref().unwrap_or("an unknown host"))
        )?;
    }
    if let Some(key) = &job.unique_key {
        writeln!(out, "  unique key  {}", one_line(key))?;
    }
    if let Some(since) = job.outage_since {
        writeln!(out, "  in outage   for {}", ago(since))?;
    }
    writeln!(
        out,
        "  enqueued    {} ({} ago)",
        rfc3339(job.enqueued_at),
        ago(job.enqueued_at)
    )?;
    if !job.history.is_empty() {
        writeln!(out, "\nTimeline:")?;
        letter::attempts(out, &job.history)?;
    }
    writeln!(out, "\nPayload:\n{}", clean(&pretty(job.payload.get())))?;
    Ok(Ending::Done)
}

fn cancel(db: &Database, id: JobId, arguments: &Arguments, io: &mut Streams<'_>) -> Result<Ending> {
    let (word, text) = match db.cancel(id)? {
        Cancelled::Dead => (
            "dead",
            format!("job {id} is cancelled: it is a dead letter now"),
        ),
        Cancelled::Asked => (
            "asked",
            format!("job {id} runs: its handler is told to end"),
        ),
        Cancelled::NotLive => return not_live(db, id, io),
    };
    if arguments.json {
        json_line(io.out, &json!({ "id": id.get(), "cancelled": word }))?;
    } else {
        writeln!(io.out, "{text}")?;
    }
    Ok(Ending::Done)
}

fn set(
    db: &Database,
    id: JobId,
    priority: i16,
    arguments: &Arguments,
    io: &mut Streams<'_>,
) -> Result<Ending> {
    if !db.set_priority(id, priority)? {
        return match db.job(id)? {
            None => not_live(db, id, io),
            Some(job) => {
                io.say(format!(
                    "job {id} is {}: its priority cannot change any more",
                    job.place
                ));
                Ok(Ending::NothingMatched)
            }
        };
    }
    if arguments.json {
        json_line(io.out, &json!({ "id": id.get(), "priority": priority }))?;
    } else {
        writeln!(io.out, "job {id} has the priority {priority}")?;
    }
    Ok(Ending::Done)
}

/// Says why there is no such live job, and where to look.
fn not_live(db: &Database, id: JobId, io: &mut Streams<'_>) -> Result<Ending> {
    io.say(match db.letter(id)? {
        Some(letter) => format!(
            "job {id} is not live, its letter is {}: redrive dlq show {id}",
            letter.state
        ),
        None => format!("job {id} is not live: it is done, or it never was"),
    });
    Ok(Ending::NothingMatched)
}

/// A live job as a line of JSON.
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
            state: job.place.as_str(),
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
