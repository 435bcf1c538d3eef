//! `redrive job show`: one job that has not ended.

use clap::Args;
use redrive::admin::{JobState, LiveJob};
use redrive::{Database, HeldGroup, JobId};
use serde::Serialize;

use crate::context::{Context, Ending};
use crate::error::Result;
use crate::letter::{attempt_lines, print_attempts, waiting};
use crate::terminal::{clean, json_line, line, one_line, pretty, write_labelled};
use crate::time::{ago, rfc3339};

/// Show the state, payload and failed attempts of a job
#[derive(Args, Debug)]
#[command(before_help = "Example:\n  redrive job show 42\n")]
pub(crate) struct ShowJob {
    /// The id of the job.
    id: JobId,
}

impl ShowJob {
    pub(super) fn run(&self, cx: &mut Context<'_>) -> Result<Ending> {
        let db = cx.database()?;
        match db.admin().job(self.id)? {
            Some(job) => show(&db, &job, cx),
            None => not_found(&db, self.id, cx),
        }
    }
}

fn show(db: &Database, job: &LiveJob, cx: &mut Context<'_>) -> Result<Ending> {
    if cx.global.json {
        json_line(cx.out, &job_line(job))?;
        return Ok(Ending::Done);
    }
    let state = match job.state {
        JobState::Delayed => format!("delayed until {}", rfc3339(job.since)),
        JobState::Ready | JobState::Leased | _ => format!("{} for {}", job.state, ago(job.since)),
    };
    writeln!(cx.out, "job {}: {state}\n", job.id)?;
    let held = match job.held_by {
        Some(letter) => db.dlq().held_group(letter)?,
        None => None,
    };
    for (name, value) in details(job, held.as_ref()) {
        write_labelled(cx.out, &format!("  {name:<11} "), &one_line(&value))?;
    }
    if !job.history.is_empty() {
        writeln!(cx.out, "\nTimeline:")?;
        print_attempts(cx.out, &job.history)?;
    }
    writeln!(cx.out, "\nPayload:\n{}", clean(&pretty(job.payload.get())))?;
    Ok(Ending::Done)
}

fn details(job: &LiveJob, held: Option<&HeldGroup>) -> Vec<(&'static str, String)> {
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
    if let Some(group) = &job.group_key {
        let held = held.map(|held| format!(", held by letter {}, {}", held.letter, waiting(held)));
        details.push(("job group", format!("{group}{}", held.unwrap_or_default())));
    }
    for (name, value) in &job.headers {
        details.push(match name.as_str() {
            "redrive-progress" => ("progress", value.clone()),
            "redrive-checkpoint" => ("checkpoint", value.clone()),
            _ => ("header", format!("{name}: {value}")),
        });
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

/// Reports that no such job exists, and points to its letter.
pub(super) fn not_found(db: &Database, id: JobId, cx: &mut Context<'_>) -> Result<Ending> {
    cx.nothing(match db.dlq().get(id)? {
        Some(letter) => format!(
            "job {id} has ended; its letter is {}: redrive dlq show {id}",
            letter.state
        ),
        None => format!("job {id} does not exist, or it is done"),
    })
}

/// A job as one line of JSON.
pub(super) fn job_line(job: &LiveJob) -> impl Serialize {
    line!(job =>
        id, queue, kind, state, priority, attempts, max_attempts, generation, crashes, since,
        enqueued_at, worker = job.worker.map(|worker| worker.to_string()), host, unique_key,
        group_key, held_by, headers, outage_since, history = attempt_lines(&job.history), payload,
    )
}
