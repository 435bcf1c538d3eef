//! `redrive job show`: one job that has not ended.

use std::collections::BTreeMap;

use redrive::admin::{JobState, LiveJob};
use redrive::{Database, JobId};
use serde::Serialize;
use serde_json::value::RawValue;

use crate::context::{Context, Ending};
use crate::error::Result;
use crate::letter::{AttemptLine, print_attempts};
use crate::terminal::{clean, json_line, one_line, pretty, write_labelled};
use crate::time::{ago, rfc3339};

pub(super) fn show(db: &Database, id: JobId, cx: &mut Context<'_>) -> Result<Ending> {
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
pub(super) struct JobLine<'a> {
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
    headers: &'a BTreeMap<String, String>,
    outage_since: Option<String>,
    history: Vec<AttemptLine<'a>>,
    payload: &'a RawValue,
}

impl JobLine<'_> {
    pub(super) fn of(job: &LiveJob) -> JobLine<'_> {
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
            headers: &job.headers,
            outage_since: job.outage_since.map(rfc3339),
            history: job.history.iter().map(AttemptLine::of).collect(),
            payload: &job.payload,
        }
    }
}
