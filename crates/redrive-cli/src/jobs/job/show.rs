//! `redrive job show`: one job that has not ended, or is kept.

use redrive::admin::{JobState, LiveJob};
use redrive::{HeldGroup, JobId};

use crate::letter::{attempt_lines, print_attempts};
use crate::not_done::{ID, Why, unknown};
use crate::prelude::*;

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
            Some(job) => show(&job, cx),
            None => {
                let id = self.id.to_string();
                let gone = gone(self.id, &db)?.replace(ID, &id);
                cx.nothing(format!("job {id} {gone}"))
            }
        }
    }
}

fn show(job: &LiveJob, cx: &mut Context<'_>) -> Result<Ending> {
    let db = &cx.database()?;
    if cx.global.json {
        return cx.json(&job_line(job));
    }
    let state = match job.state {
        JobState::Delayed => format!("delayed until {}", rfc3339(job.since)),
        JobState::Done => format!("done {} ago", ago(job.since)),
        JobState::Ready | JobState::Leased | _ => format!("{} for {}", job.state, ago(job.since)),
    };
    writeln!(cx.out, "job {}: {state}\n", job.id)?;
    let held = match job.held_by {
        Some(letter) => db.dlq().held_group(letter)?,
        None => None,
    };
    details(job, held.as_ref()).write(11, cx.out)?;
    if !job.history.is_empty() {
        writeln!(cx.out, "\nTimeline:")?;
        print_attempts(cx.out, &job.history)?;
    }
    if job.state != JobState::Done {
        writeln!(cx.out, "\nPayload:\n{}", clean(&pretty(job.payload.get())))?;
    }
    Ok(Ending::Done)
}

fn details(job: &LiveJob, held: Option<&HeldGroup>) -> Details {
    let worker = job.worker.map(|worker| {
        let host = job.host.as_deref().unwrap_or("an unknown host");
        format!("{worker} on {host}")
    });
    let group = job.group_key.as_ref().map(|group| match held {
        Some(held) => {
            let waiting = counted(held.waiting, "waiting job");
            format!("{group}, held by letter {}, {waiting}", held.letter)
        }
        None => group.clone(),
    });
    let mut details = Details::default();
    details
        .add("queue", &job.queue)
        .add("kind", &job.kind)
        .add("priority", job.priority)
        .add(
            "attempts",
            format!("{} of {}", job.attempts, job.max_attempts),
        )
        .some(
            "generation",
            Some(job.generation).filter(|number| *number > 0),
        )
        .some(
            "crashes",
            (job.crashes > 0).then(|| format!("{} workers died", job.crashes)),
        )
        .some("worker", worker)
        .some("unique key", job.unique_key.as_ref())
        .some("job group", group);
    for (name, value) in &job.headers {
        match name.as_str() {
            "redrive-progress" => details.add("progress", value),
            "redrive-checkpoint" => details.add("checkpoint", value),
            _ => details.add("header", format!("{name}: {value}")),
        };
    }
    let (at, age) = (rfc3339(job.enqueued_at), ago(job.enqueued_at));
    details
        .some(
            "outage",
            job.outage_since.map(|since| format!("for {}", ago(since))),
        )
        .add("enqueued", format!("{at} ({age} ago)"));
    details
}

/// What became of a job that is not live.
pub(super) fn gone(id: JobId, db: &Database) -> Result<String> {
    Ok(match db.dlq().get(id)? {
        Some(letter) => {
            let state = letter.state;
            format!("has ended; its letter is {state}: {Me} dlq show {ID}")
        }
        None => "does not exist, or it is done".to_owned(),
    })
}

pub(super) fn job_line(job: &LiveJob) -> impl Serialize {
    object!(job =>
        id, queue, kind, state, priority, attempts, max_attempts, generation, crashes, since,
        enqueued_at, worker = job.worker.map(|worker| worker.to_string()), host, unique_key,
        group_key, held_by, headers, outage_since, history = attempt_lines(&job.history), payload,
    )
}

/// Returns a job given by id, if it has not ended, or why a command cannot take it.
pub(super) fn live(id: JobId, db: &Database) -> std::result::Result<LiveJob, Why> {
    match db.admin().job(id).map_err(unknown)? {
        None => Err(("gone", format!("it {}", gone(id, db).map_err(unknown)?))),
        Some(job) if job.state == JobState::Done => Err(("done", "it is done already".to_owned())),
        Some(job) => Ok(job),
    }
}
