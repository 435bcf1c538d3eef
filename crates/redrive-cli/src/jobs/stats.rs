//! `redrive stats`: job and letter counts and pauses per queue.

use redrive::admin::{Breaker, BreakerState, QueueStats};

use crate::dlq::none_in;
use crate::prelude::*;

/// Show how many jobs and letters the queues hold, the jobs by kind, and who paused which queue
///
/// This counts every row. For monitoring, use the exporter.
#[derive(Args, Debug)]
#[command(before_help = "\
Examples:
  redrive stats
  redrive stats orders --json | jq .open
")]
pub(crate) struct Stats {
    /// Only this queue.
    queue: Option<String>,
}

impl Stats {
    pub(crate) fn run(&self, cx: &mut Context<'_>) -> Result<Ending> {
        let db = cx.database()?;
        let stats = db.admin().stats(self.queue.as_deref())?;
        let breakers = db.admin().breakers()?;
        if let (true, Some(queue)) = (stats.is_empty(), &self.queue) {
            let none = format!("queue `{}` is empty and has no worker", one_line(queue));
            return none_in(Some(queue), none, cx);
        }
        let table = jobs(&stats, &breakers);
        cx.items(&stats, |queue| queue_json(queue, &breakers), &table)?;
        if cx.global.json {
            return Ok(Ending::Done);
        }
        if stats.is_empty() {
            writeln!(cx.out, "All queues are empty.")?;
        }
        for table in [kinds(&stats), letters(&stats), pauses(&stats)] {
            if !table.is_empty() {
                writeln!(cx.out)?;
                table.write(cx.out)?;
            }
        }
        Ok(Ending::Done)
    }
}

fn jobs(stats: &[QueueStats], breakers: &[Breaker]) -> Table {
    table!(queue in stats => {
        Text "QUEUE" => queue.queue,
        Number "READY" => grouped(queue.ready),
        Number "DELAYED" => grouped(queue.delayed),
        Number "LEASED" => grouped(queue.leased),
        Number "WAIT" => queue.oldest_ready.map_or_else(|| "-".to_owned(), short),
        Number "WORKERS" => grouped(queue.workers),
        Number "SLOTS" => grouped(queue.slots),
        Word "STATE" => state(queue, breakers),
    })
}

fn kinds(stats: &[QueueStats]) -> Table {
    let kinds = stats
        .iter()
        .flat_map(|queue| queue.kinds.iter().map(move |kind| (queue, kind)));
    table!((queue, kind) in kinds => {
        Text "JOBS OF" => queue.queue,
        Name "KIND" => kind.kind,
        Number "READY" => grouped(kind.ready),
        Number "DELAYED" => grouped(kind.delayed),
        Number "LEASED" => grouped(kind.leased),
        Text "" => if kind.is_handled { "" } else { "no worker" },
    })
}

fn letters(stats: &[QueueStats]) -> Table {
    let has_letters = |queue: &&QueueStats| {
        queue.open + queue.redriving + queue.recovered + queue.discarded + queue.quarantined > 0
    };
    table!(queue in stats.iter().filter(has_letters) => {
        Text "LETTERS OF" => queue.queue,
        Number "OPEN" => grouped(queue.open),
        Number "REDRIVING" => grouped(queue.redriving),
        Number "RECOVERED" => grouped(queue.recovered),
        Number "DISCARDED" => grouped(queue.discarded),
        Number "QUARANTINED" => grouped(queue.quarantined),
    })
}

fn pauses(stats: &[QueueStats]) -> Table {
    let paused = stats
        .iter()
        .filter_map(|queue| Some((queue, queue.pause.as_ref()?)));
    table!((queue, pause) in paused => {
        Text "PAUSED" => queue.queue,
        Number "FOR" => ago(pause.paused_at),
        Number "ENDS IN" => time::wait_for(pause.ends_at),
        Text "BY" => pause.person.as_deref().unwrap_or("-"),
        Text "REASON" => pause.reason.as_deref().unwrap_or("-"),
    })
}

/// Whether a queue runs its jobs or why not, in one word. A breaker counts if it holds every kind with
/// ready jobs.
fn state(queue: &QueueStats, breakers: &[Breaker]) -> &'static str {
    let mut open = breakers
        .iter()
        .filter(|of| of.state != BreakerState::Closed);
    let is_held = |kind: &str| {
        open.clone()
            .any(|of| of.kinds.iter().any(|held| held == kind))
    };
    let mut ready = queue.kinds.iter().filter(|kind| kind.ready > 0).peekable();
    if queue.pause.is_some() {
        "paused"
    } else if queue.workers == 0 {
        "unserved"
    } else if ready.peek().is_some() && ready.all(|kind| is_held(&kind.kind))
        || open.any(|of| of.name.strip_prefix("queue:") == Some(&queue.queue))
    {
        "breaker"
    } else {
        "running"
    }
}

fn queue_json(queue: &QueueStats, breakers: &[Breaker]) -> impl Serialize {
    let kinds = queue.kinds.iter().map(|kind| {
        object!(kind =>
            kind, ready, delayed, leased, handled = kind.is_handled,
        )
    });
    let pause = queue.pause.as_ref();
    let pause = pause.map(|pause| object!(pause => paused_at, ends_at, person, reason));
    object!(queue =>
        queue, state = state(queue, breakers), pause = pause, ready, delayed,
        leased, oldest_ready_ms = queue.oldest_ready.json(), workers,
        slots, open, redriving, recovered, discarded, quarantined,
        oldest_open_died_at = queue.oldest_open.json(), kinds = kinds.collect::<Vec<_>>(),
    )
}
