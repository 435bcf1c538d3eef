//! Held groups, active runs, paused queues and open breakers, each with the command to type next.

use redrive::admin::{BreakerState, MAX_HELD_COUNT, QueueStats};
use redrive::dlq::runs::{RedriveRun, RunState};
use serde_json::Value;

use crate::dlq::run_report::{outcomes, run_line, skips};
use crate::pause::{breaker_line, ends_in, pause_json};
use crate::prelude::*;

/// How many of the newest runs that have not ended are considered.
const RUNS: u32 = 100;

/// Held groups, a run, a pause or a breaker on the screen.
pub(super) struct Activity {
    pub(super) line: String,
    /// The command to type next.
    pub(super) next: String,
    pub(super) json: Value,
}

/// The groups of each queue that a letter holds.
pub(super) fn held_groups(db: &Database) -> Result<Vec<Activity>> {
    let held = db.admin().held_groups_by_queue()?;
    Ok(held
        .iter()
        .map(|held| Activity {
            line: format!(
                "{}: {} held, {} waiting; {} for {} by letter {}",
                held.queue,
                at_most_counted(held.groups, "group"),
                at_most_counted(held.waiting, "job"),
                held.oldest_group,
                ago(held.oldest_held_at),
                held.oldest_letter,
            ),
            next: format!("{Me} queue groups held {}", operand(&held.queue)),
            json: json!(object!(held =>
                queue, held = held.groups.json(), waiting, oldest_group, oldest_letter, oldest_held_at,
            )),
        })
        .collect())
}

fn at_most_counted(count: u64, what: &str) -> String {
    match count < MAX_HELD_COUNT {
        true => counted(count, what),
        false => format!("{} or more {what}s", grouped(count)),
    }
}

/// The redrive runs that halted and await a decision, and those in progress or paused.
pub(super) fn runs(db: &Database) -> Result<(Vec<Activity>, Vec<Activity>)> {
    let (mut halted, mut in_progress) = (Vec::new(), Vec::new());
    for run in &db.dlq().runs().unfinished(RUNS)? {
        match run.state {
            RunState::Halted => halted.push(activity(run, db)?),
            RunState::Unapproved | RunState::Running | RunState::Paused => {
                in_progress.push(activity(run, db)?);
            }
            RunState::Cancelled | RunState::Finished | _ => {}
        }
    }
    Ok((halted, in_progress))
}

fn activity(run: &RedriveRun, db: &Database) -> Result<Activity> {
    Ok(Activity {
        line: outcomes(run),
        next: format!("{Me} dlq runs show {}", run.id),
        json: json!(run_line(run, &skips(run, db)?, None)),
    })
}

pub(super) fn pauses(queues: &[QueueStats]) -> Vec<Activity> {
    let paused = queues
        .iter()
        .filter_map(|queue| Some((queue, queue.pause.as_ref()?)));
    paused
        .map(|(queue, pause)| Activity {
            line: format!(
                "{} paused for {}, ends {}, {} ready: {}",
                queue.queue,
                ago(pause.paused_at),
                match pause.ends_at {
                    Some(_) => format!("in {}", ends_in(pause)),
                    None => "when resumed".to_owned(),
                },
                grouped(queue.ready),
                pause.reason.as_deref().unwrap_or("no reason given")
            ),
            next: format!("{Me} queue resume {}", operand(&queue.queue)),
            json: json!(pause_json(pause)),
        })
        .collect()
}

/// The breakers that are not closed.
pub(super) fn breakers(db: &Database) -> Result<Vec<Activity>> {
    let breakers = db.admin().breakers()?;
    let open = breakers
        .iter()
        .filter(|breaker| breaker.state != BreakerState::Closed);
    Ok(open
        .map(|breaker| Activity {
            line: format!(
                "{} {} for {} ({}) {}",
                breaker.name,
                breaker.state,
                ago(breaker.opened_at),
                breaker.cause,
                breaker.message.as_deref().unwrap_or_default()
            ),
            next: format!("{Me} breaker close {}", operand(&breaker.name)),
            json: json!(breaker_line(breaker)),
        })
        .collect())
}
