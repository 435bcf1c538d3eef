//! Warnings about letters whose jobs would wait behind a breaker or for a worker, or that another
//! run sends.

use redrive::dlq::{Blocked, Gated, OverlappingRun, Unserved};
use serde_json::json;

use super::filter::quoted;
use crate::context::Context;
use crate::terminal::counted;
use crate::time::{ago, rfc3339};

/// Warns about jobs whose queue has no worker for their kind, and about jobs behind a breaker.
pub(super) fn warn_blocked(unserved: &[Unserved], gated: &[Gated], cx: &mut Context<'_>) {
    for (queue, kinds) in by_queue(unserved) {
        let letters = counted(kinds.iter().map(|waiting| waiting.letters).sum(), "letter");
        cx.say(match *kinds {
            [waiting] => format!(
                "warning: no live worker of queue `{queue}` handles kind `{}`: {letters} would \
                 wait there",
                waiting.kind
            ),
            _ => format!(
                "warning: no live worker takes {} kinds of `{queue}` ({letters} would wait): \
                 redrive stats {}",
                kinds.len(),
                quoted(queue)
            ),
        });
    }
    for (breaker, letters) in by_breaker(gated) {
        cx.say(format!(
            "warning: breaker {} is open for {}: {} would wait until it closes: {}",
            breaker.breaker,
            ago(breaker.opened_at),
            counted(letters, "letter"),
            close(breaker)
        ));
    }
}

/// Warns about runs that will send some of the letters too.
pub(super) fn warn_overlapping(runs: &[OverlappingRun], cx: &mut Context<'_>) {
    for overlapping in runs {
        cx.say(format!(
            "warning: run {run} has not ended and will send {letters} of these too; the later run skips them: redrive dlq runs show {run}",
            run = overlapping.run,
            letters = counted(overlapping.letters, "letter")
        ));
    }
}

/// Describes each breaker and each missing worker that the jobs of a run wait for.
pub(super) fn waits(blocked: &Blocked) -> Vec<String> {
    let breakers = by_breaker(&blocked.gated).into_iter().map(|(gated, jobs)| {
        format!(
            "breaker {}, open for {}: {}; {}",
            gated.breaker,
            ago(gated.opened_at),
            counted(jobs, "job"),
            close(gated)
        )
    });
    let workers = by_queue(&blocked.unserved).into_iter();
    let workers = workers.map(|(queue, kinds)| {
        let jobs = counted(kinds.iter().map(|waiting| waiting.letters).sum(), "job");
        match *kinds {
            [unserved] => format!(
                "a worker of queue `{queue}` for kind `{}`: {jobs}",
                unserved.kind
            ),
            _ => format!(
                "a worker of queue `{queue}` for {} kinds: {jobs}",
                kinds.len()
            ),
        }
    });
    breakers.chain(workers).collect()
}

/// The kinds without a worker of each queue.
fn by_queue(unserved: &[Unserved]) -> Vec<(&str, Vec<&Unserved>)> {
    let mut queues: Vec<(&str, Vec<&Unserved>)> = Vec::new();
    for waiting in unserved {
        match queues.iter_mut().find(|(queue, _)| *queue == waiting.queue) {
            Some((_, kinds)) => kinds.push(waiting),
            None => queues.push((&waiting.queue, vec![waiting])),
        }
    }
    queues
}

/// Describes each breaker, and each queue without workers, that jobs wait for, in a few words.
pub(super) fn reasons(blocked: &Blocked) -> Vec<String> {
    let breakers = by_breaker(&blocked.gated)
        .into_iter()
        .map(|(gated, _)| format!("breaker {} is open {}", gated.breaker, ago(gated.opened_at)));
    let workers = by_queue(&blocked.unserved).into_iter();
    let workers = workers.map(|(queue, kinds)| match *kinds {
        [unserved] => format!(
            "no live worker of queue `{queue}` handles kind `{}`",
            unserved.kind
        ),
        _ => format!(
            "no live worker of queue `{queue}` handles {} of its kinds",
            kinds.len()
        ),
    });
    breakers.chain(workers).collect()
}

/// The breakers, queues and kinds that the jobs of a run wait for, without numbers and times.
pub(super) fn blocked_by(blocked: &Blocked) -> Vec<String> {
    let breakers = by_breaker(&blocked.gated).into_iter();
    let breakers = breakers.map(|(gated, _)| gated.breaker.clone());
    let workers = blocked.unserved.iter();
    let workers = workers.map(|unserved| format!("{} {}", unserved.queue, unserved.kind));
    breakers.chain(workers).collect()
}

fn close(gated: &Gated) -> String {
    format!("redrive breaker close {}", quoted(&gated.breaker))
}

/// Each breaker once, with the letters of all queues and kinds behind it.
fn by_breaker(gated: &[Gated]) -> Vec<(&Gated, u64)> {
    let mut breakers: Vec<(&Gated, u64)> = Vec::new();
    for each in gated {
        match breakers
            .iter_mut()
            .find(|(known, _)| known.breaker == each.breaker)
        {
            Some((_, letters)) => *letters += each.letters,
            None => breakers.push((each, each.letters)),
        }
    }
    breakers
}

pub(super) fn unserved_json(unserved: &[Unserved]) -> Vec<serde_json::Value> {
    unserved
        .iter()
        .map(|waiting| {
            json!({
                "queue": waiting.queue,
                "kind": waiting.kind,
                "letters": waiting.letters,
            })
        })
        .collect()
}

pub(super) fn gated_json(gated: &[Gated]) -> Vec<serde_json::Value> {
    gated
        .iter()
        .map(|waiting| {
            json!({
                "breaker": waiting.breaker,
                "opened_at": rfc3339(waiting.opened_at),
                "queue": waiting.queue,
                "kind": waiting.kind,
                "letters": waiting.letters,
            })
        })
        .collect()
}
