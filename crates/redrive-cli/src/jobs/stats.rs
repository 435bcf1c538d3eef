//! `redrive stats`: job and letter counts per queue.

use clap::Args;
use redrive::admin::QueueStats;
use serde_json::json;

use crate::context::{Context, Ending};
use crate::error::Result;
use crate::pause::{pause_json, state};
use crate::terminal::{Column, Table, grouped, json_line};
use crate::time::{ago, rfc3339, short};

/// Show how many jobs and letters the queues hold, the jobs by kind, and the most frequent failures
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
        let stats = cx.database()?.admin().stats(self.queue.as_deref())?;
        if let (true, Some(queue)) = (stats.is_empty(), &self.queue) {
            cx.say(format!("queue `{queue}` is empty and has no worker"));
            return Ok(Ending::NothingMatched);
        }
        if cx.global.json {
            for queue in &stats {
                json_line(cx.out, &queue_json(queue))?;
            }
            return Ok(Ending::Done);
        }
        if stats.is_empty() {
            writeln!(cx.out, "All queues are empty.")?;
            return Ok(Ending::Done);
        }
        jobs(&stats).write(cx.out)?;
        if stats.iter().any(|queue| !queue.kinds.is_empty()) {
            writeln!(cx.out)?;
            kinds(&stats).write(cx.out)?;
        }
        if stats.iter().any(has_letters) {
            writeln!(cx.out)?;
            letters(&stats).write(cx.out)?;
        }
        if stats.iter().any(|queue| !queue.failures.is_empty()) {
            writeln!(cx.out, "\nOpen letters by failure:")?;
            failures(&stats).write(cx.out)?;
        }
        Ok(Ending::Done)
    }
}

fn jobs(stats: &[QueueStats]) -> Table {
    let mut table = Table::new([
        Column::Text("QUEUE"),
        Column::Number("READY"),
        Column::Number("DELAYED"),
        Column::Number("LEASED"),
        Column::Number("OLDEST"),
        Column::Number("WORKERS"),
        Column::Number("SLOTS"),
        Column::Word("STATE"),
    ]);
    for queue in stats {
        table.row([
            queue.queue.clone(),
            grouped(queue.ready),
            grouped(queue.delayed),
            grouped(queue.leased),
            queue.oldest_ready.map_or_else(|| "-".to_owned(), short),
            grouped(queue.workers),
            grouped(queue.slots),
            state(queue).to_owned(),
        ]);
    }
    table
}

fn kinds(stats: &[QueueStats]) -> Table {
    let mut table = Table::new([
        Column::Text("JOBS OF"),
        Column::Name("KIND"),
        Column::Number("READY"),
        Column::Number("DELAYED"),
        Column::Number("LEASED"),
        Column::Text(""),
    ]);
    for queue in stats {
        for kind in &queue.kinds {
            let worker = if kind.is_handled { "" } else { "no worker" };
            table.row([
                queue.queue.clone(),
                kind.kind.clone(),
                grouped(kind.ready),
                grouped(kind.delayed),
                grouped(kind.leased),
                worker.to_owned(),
            ]);
        }
    }
    table
}

fn has_letters(queue: &QueueStats) -> bool {
    queue.open + queue.redriving + queue.recovered + queue.discarded + queue.quarantined > 0
}

fn letters(stats: &[QueueStats]) -> Table {
    let mut table = Table::new([
        Column::Text("LETTERS OF"),
        Column::Number("OPEN"),
        Column::Number("REDRIVING"),
        Column::Number("RECOVERED"),
        Column::Number("DISCARDED"),
        Column::Number("QUARANTINED"),
    ]);
    for queue in stats.iter().filter(|queue| has_letters(queue)) {
        table.row([
            queue.queue.clone(),
            grouped(queue.open),
            grouped(queue.redriving),
            grouped(queue.recovered),
            grouped(queue.discarded),
            grouped(queue.quarantined),
        ]);
    }
    table
}

fn failures(stats: &[QueueStats]) -> Table {
    let mut table = Table::new([
        Column::Text("QUEUE"),
        Column::Number("GROUP"),
        Column::Number("LETTERS"),
        Column::Word("CAUSE"),
        Column::Text("CLASS"),
        Column::Number("LAST"),
        Column::Text("NEWEST MESSAGE"),
    ]);
    for queue in stats {
        for failure in &queue.failures {
            table.row([
                queue.queue.clone(),
                failure.group.to_string(),
                grouped(failure.letters),
                failure.cause.to_string(),
                failure.error_class.clone(),
                ago(failure.last_at),
                failure.sample.clone(),
            ]);
        }
    }
    table
}

fn queue_json(queue: &QueueStats) -> serde_json::Value {
    let failures: Vec<_> = queue
        .failures
        .iter()
        .map(|failure| {
            json!({
                "group": failure.group.get(),
                "cause": failure.cause.as_str(),
                "error_class": failure.error_class,
                "letters": failure.letters,
                "newest": failure.sample,
                "first_at": rfc3339(failure.first_at),
                "last_at": rfc3339(failure.last_at),
            })
        })
        .collect();
    let kinds: Vec<_> = queue
        .kinds
        .iter()
        .map(|kind| {
            json!({
                "kind": kind.kind,
                "ready": kind.ready,
                "delayed": kind.delayed,
                "leased": kind.leased,
                "handled": kind.is_handled,
            })
        })
        .collect();
    json!({
        "queue": queue.queue,
        "state": state(queue),
        "pause": queue.pause.as_ref().map(pause_json),
        "ready": queue.ready,
        "delayed": queue.delayed,
        "leased": queue.leased,
        "oldest_ready_seconds": queue.oldest_ready.map(|age| age.as_secs_f64()),
        "workers": queue.workers,
        "slots": queue.slots,
        "open": queue.open,
        "redriving": queue.redriving,
        "recovered": queue.recovered,
        "discarded": queue.discarded,
        "quarantined": queue.quarantined,
        "oldest_open_died_at": queue.oldest_open.map(rfc3339),
        "kinds": kinds,
        "failures": failures,
    })
}
