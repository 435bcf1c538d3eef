//! What keeps the jobs of letters from starting: a paused queue, an open breaker, a missing worker, or another run
//! that sends the letters.

use std::collections::BTreeMap;

use redrive::dlq::Blocked;

use crate::prelude::*;

/// Something that keeps jobs from starting.
pub(super) struct Block {
    /// Such as `breaker queue:orders is open for 5m`.
    pub(super) because: String,
    /// The end of it.
    until: &'static str,
    /// The letters of all queues and kinds.
    letters: u64,
    /// The command that ends it, or tells more.
    next: String,
}

impl Block {
    /// One line about the jobs that wait.
    pub(super) fn line(&self) -> String {
        format!(
            "{}: {}; {}",
            self.because,
            counted(self.letters, "job"),
            self.next
        )
    }
}

/// Each pause and each breaker once, and then each queue that has no worker for some kinds.
pub(super) fn blocks(blocked: &[Blocked]) -> Vec<Block> {
    let mut blocks: Vec<Block> = Vec::new();
    for gate in blocked {
        let Some(since) = gate.since else { continue };
        let (name, state, until, next) = match &gate.breaker {
            Some(breaker) => (
                format!("breaker {breaker}"),
                "open",
                "it closes",
                format!("{Me} breaker close {}", operand(breaker)),
            ),
            None => (
                format!("queue `{}`", gate.queue),
                "paused",
                "it is resumed",
                format!("{Me} queue resume {}", operand(&gate.queue)),
            ),
        };
        match blocks.iter_mut().find(|known| known.next == next) {
            Some(known) => known.letters += gate.letters,
            None => blocks.push(Block {
                because: format!("{name} is {state} for {}", ago(since)),
                until,
                letters: gate.letters,
                next,
            }),
        }
    }
    let mut queues: BTreeMap<&str, Vec<&Blocked>> = BTreeMap::new();
    for kind in blocked.iter().filter(|kind| !kind.is_served) {
        queues.entry(&kind.queue).or_default().push(kind);
    }
    blocks.extend(queues.into_iter().map(|(queue, kinds)| {
        let names: Vec<&str> = kinds.iter().map(|of| &*of.kind).collect();
        let handled = match *names {
            [kind] => format!("kind `{kind}`"),
            _ => format!("{} of its kinds", names.len()),
        };
        Block {
            because: format!("no live worker of queue `{queue}` handles {handled}"),
            until: "one does",
            letters: kinds.iter().map(|of| of.letters).sum(),
            next: format!("{Me} stats {}", operand(queue)),
        }
    }));
    blocks
}

/// Warns about what keeps the jobs of letters from starting.
pub(super) fn warn_blocked(blocked: &[Blocked], cx: &mut Context<'_>) {
    for block in blocks(blocked) {
        cx.say(format!(
            "warning: {}: {} would wait until {}: {}",
            block.because,
            counted(block.letters, "letter"),
            block.until,
            block.next
        ));
    }
}

pub(super) fn blocked_json(blocked: &[Blocked]) -> Vec<impl Serialize> {
    let lines = blocked.iter().map(|of| object!(of =>
        queue, kind, letters, is_served, breaker, paused = of.since.is_some() && of.breaker.is_none(),
        held_at = of.since.json(),
    ));
    lines.collect()
}
