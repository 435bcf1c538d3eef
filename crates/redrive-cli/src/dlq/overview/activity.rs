//! The entries of the screen, each with the command to type next.

use std::cmp::Reverse;
use std::time::Duration;

use redrive::admin::{BreakerState, KindStats, MAX_HELD_COUNT, QueueStats};
use redrive::dlq::LetterFilter;
use redrive::dlq::runs::{RedriveRun, RunState};
use serde_json::Value;

use crate::dlq::run_report::outcomes;
use crate::prelude::*;

/// How many of the newest runs that have not ended are considered.
const RUNS: u32 = 100;

/// One entry of the screen.
#[derive(Default)]
pub(super) struct Activity {
    pub(super) line: String,
    /// What else there is to say.
    pub(super) details: Vec<String>,
    /// The command to type next.
    pub(super) next: String,
}

impl Activity {
    pub(super) fn json(&self, part: &str) -> Value {
        json!({ "part": part, "line": self.line, "details": self.details, "next": self.next })
    }
}

pub(super) fn oldest_letter(queues: &[QueueStats]) -> Vec<Activity> {
    let died = queues.iter();
    let died = died.filter_map(|queue| Some((&queue.queue, queue.oldest_open?)));
    let oldest = died.min_by_key(|(_, died_at)| *died_at);
    let activity = oldest.map(|(queue, died_at)| {
        let queue_is = LetterFilter::new().queue(queue).to_string();
        let died = format!("died<={}", rfc3339(died_at + Duration::from_millis(1)));
        Activity {
            line: format!("died {} ago in {queue}", ago(died_at)),
            next: format!("{Me} dlq list {} {}", quoted(&queue_is), quoted(&died)),
            ..Activity::default()
        }
    });
    activity.into_iter().collect()
}

/// The ready jobs of a queue that no live worker takes, if there are any.
pub(super) fn unhandled(queue: &QueueStats) -> Option<Activity> {
    let kinds = queue.kinds.iter();
    let kinds = kinds.filter(|kind| kind.ready > 0 && !kind.is_handled);
    let mut kinds: Vec<&KindStats> = kinds.collect();
    kinds.sort_by_key(|kind| Reverse(kind.ready));
    let (name, names) = (&queue.queue, kinds.iter().map(|kind| &*kind.kind));
    let ready = grouped(kinds.iter().map(|kind| kind.ready).sum());
    let line = match queue.workers {
        0 => format!("{name}: no live worker, {ready} ready"),
        _ => format!(
            "{name}: no live worker for {} with {ready} ready: {}",
            counted(kinds.len() as u64, "kind"),
            names.collect::<Vec<_>>().join(", ")
        ),
    };
    (!kinds.is_empty()).then(|| Activity {
        line,
        next: format!("{Me} stats {}", operand(name)),
        ..Activity::default()
    })
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
            ..Activity::default()
        })
        .collect())
}

fn at_most_counted(count: u64, what: &str) -> String {
    match count < MAX_HELD_COUNT {
        true => counted(count, what),
        false => format!("{} or more {what}s", grouped(count)),
    }
}

/// The redrive runs that have not ended: first those that halted and await a decision.
pub(super) fn runs(db: &Database) -> Result<Vec<Activity>> {
    let mut runs = db.dlq().runs().unfinished(RUNS)?;
    runs.sort_by_key(|run| run.state != RunState::Halted);
    let activity = |run: &RedriveRun| Activity {
        line: outcomes(run),
        next: format!("{Me} dlq runs show {}", run.id),
        ..Activity::default()
    };
    Ok(runs.iter().map(activity).collect())
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
                    Some(_) => format!("in {}", time::wait_for(pause.ends_at)),
                    None => "when resumed".to_owned(),
                },
                grouped(queue.ready),
                pause.reason.as_deref().unwrap_or("no reason given")
            ),
            next: format!("{Me} queue resume {}", operand(&queue.queue)),
            ..Activity::default()
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
            ..Activity::default()
        })
        .collect())
}
