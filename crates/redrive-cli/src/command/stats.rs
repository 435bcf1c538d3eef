//! `redrive stats`: the numbers of the queues.

use clap::Args;
use redrive::QueueStats;
use serde_json::json;

use crate::args::Arguments;
use crate::connect::{self, Patience};
use crate::duration::{ago, rfc3339, short};
use crate::error::Result;
use crate::render::{grouped, json_line};
use crate::table::{Column, Table};
use crate::{Ending, Streams};

/// Show how many jobs and letters the queues hold, and what went wrong.
///
/// Jobs are counted row by row: for a person, not for a dashboard.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  redrive stats
  redrive stats orders --json | jq .open")]
pub(crate) struct Stats {
    /// Only this queue.
    queue: Option<String>,
}

impl Stats {
    pub(crate) fn run(&self, arguments: &Arguments, io: &mut Streams<'_>) -> Result<Ending> {
        let db = connect::database(arguments, Patience::Minute, io)?;
        let stats = db.stats(self.queue.as_deref())?;
        if let (true, Some(queue)) = (stats.is_empty(), &self.queue) {
            io.say(format!(
                "queue `{queue}` holds nothing, and nobody works on it"
            ));
            return Ok(Ending::NothingMatched);
        }
        if arguments.json {
            for of_queue in &stats {
                json_line(io.out, &object(of_queue))?;
            }
            return Ok(Ending::Done);
        }
        if stats.is_empty() {
            writeln!(io.out, "no queue holds anything yet")?;
            return Ok(Ending::Done);
        }
        jobs(&stats).write(io.out)?;
        if stats.iter().any(has_letters) {
            writeln!(io.out)?;
            letters(&stats).write(io.out)?;
        }
        if stats.iter().any(|of_queue| !of_queue.failures.is_empty()) {
            writeln!(io.out, "\nOpen letters by what went wrong:")?;
            failures(&stats).write(io.out)?;
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
        ]);
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
        Column::Text("REASON"),
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
                failure.reason.to_string(),
                failure.error_class.clone(),
                ago(failure.last_at),
                failure.sample.clone(),
            ]);
        }
    }
    table
}

fn object(queue: &QueueStats) -> serde_json::Value {
    let failures: Vec<_> = queue
        .failures
        .iter()
        .map(|failure| {
            json!({
                "group": failure.group.get(),
                "reason": failure.reason.as_str(),
                "error_class": failure.error_class,
                "letters": failure.letters,
                "sample": failure.sample,
                "first_at": rfc3339(failure.first_at),
                "last_at": rfc3339(failure.last_at),
            })
        })
        .collect();
    json!({
        "queue": queue.queue,
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
        "failures": failures,
    })
}
