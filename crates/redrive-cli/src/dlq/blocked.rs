//! Warnings about letters whose jobs would wait in a paused queue, behind a breaker or for a worker,
//! or that another run sends.

use redrive::dlq::{Blocked, Gated, OverlappingRun, Unserved};

use crate::prelude::*;

/// Warns about jobs whose queue has no worker for their kind, or is paused, and about jobs behind a
/// breaker.
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
                operand(queue)
            ),
        });
    }
    for (gate, letters) in by_gate(gated) {
        let letters = counted(letters, "letter");
        let (since, open) = (ago(gate.since), open(gate));
        cx.say(match &gate.breaker {
            Some(breaker) => format!(
                "warning: breaker {breaker} is open for {since}: {letters} would wait until it \
                 closes: {open}"
            ),
            None => format!(
                "warning: queue `{}` is paused for {since}: {letters} would wait until it is \
                 resumed: {open}",
                gate.queue
            ),
        });
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

/// Describes each pause, each breaker and each missing worker that the jobs of a run wait for.
pub(super) fn waits(blocked: &Blocked) -> Vec<String> {
    let gates = by_gate(&blocked.gated).into_iter().map(|(gate, jobs)| {
        let (since, jobs, open) = (ago(gate.since), counted(jobs, "job"), open(gate));
        match &gate.breaker {
            Some(breaker) => format!("breaker {breaker}, open for {since}: {jobs}; {open}"),
            None => format!("queue `{}`, paused for {since}: {jobs}; {open}", gate.queue),
        }
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
    gates.chain(workers).collect()
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

/// Describes each pause, each breaker, and each queue without workers, that jobs wait for, in a few words.
pub(super) fn reasons(blocked: &Blocked) -> Vec<String> {
    let gates = by_gate(&blocked.gated).into_iter().map(|(gate, _)| {
        let since = ago(gate.since);
        match &gate.breaker {
            Some(breaker) => format!("breaker {breaker} is open {since}"),
            None => format!("queue `{}` is paused {since}", gate.queue),
        }
    });
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
    gates.chain(workers).collect()
}

/// The pauses, breakers, queues and kinds that the jobs of a run wait for, without numbers and times.
pub(super) fn blocked_by(blocked: &Blocked) -> Vec<String> {
    let gates = by_gate(&blocked.gated).into_iter();
    let gates = gates.map(|(gate, _)| match &gate.breaker {
        Some(breaker) => breaker.clone(),
        None => format!("pause {}", gate.queue),
    });
    let workers = blocked.unserved.iter();
    let workers = workers.map(|unserved| format!("{} {}", unserved.queue, unserved.kind));
    gates.chain(workers).collect()
}

/// The command that lets the jobs start.
fn open(gate: &Gated) -> String {
    match &gate.breaker {
        Some(breaker) => format!("redrive breaker close {}", operand(breaker)),
        None => format!("redrive queue resume {}", operand(&gate.queue)),
    }
}

/// Each pause and each breaker once, with the letters of all queues and kinds behind it.
fn by_gate(gated: &[Gated]) -> Vec<(&Gated, u64)> {
    let mut gates: Vec<(&Gated, u64)> = Vec::new();
    for each in gated {
        let is_same = |known: &Gated| {
            known.breaker == each.breaker && (each.breaker.is_some() || known.queue == each.queue)
        };
        match gates.iter_mut().find(|(known, _)| is_same(known)) {
            Some((_, letters)) => *letters += each.letters,
            None => gates.push((each, each.letters)),
        }
    }
    gates
}

pub(super) fn unserved_json(unserved: &[Unserved]) -> Vec<impl Serialize> {
    let lines = unserved.iter();
    lines
        .map(|waiting| object!(waiting => queue, kind, letters))
        .collect()
}

pub(super) fn gated_json(gated: &[Gated]) -> Vec<impl Serialize> {
    let lines = gated.iter().map(|waiting| object!(waiting =>
        breaker, paused = waiting.breaker.is_none(), held_at = waiting.since.json(), queue, kind,
        letters,
    ));
    lines.collect()
}
