//! The command line, run in this process: output, exit codes and effects on the database.

mod arguments;
mod setup;

mod jobs;
pub(crate) mod json;
mod live_jobs;

mod dlq;

mod breakers;
mod queues;
mod rate_limits;
mod groups_of_jobs;

mod custom_program;
mod host;
mod prune;
mod runbooks;
mod schedules;
mod terminal;

use std::cmp::Reverse;

use redrive_tests::prelude::*;

/// Returns the number of jobs of a queue that can be claimed now.
fn ready(queue: &Queue) -> u64 {
    stats(queue.database(), queue.name()).map_or(0, |stats| stats.ready)
}

/// Writes `count` payloads into a file, with `bad` as one of its lines.
pub(crate) fn payloads(count: usize, bad: Option<(usize, &str)>) -> TempFile {
    let mut lines: Vec<String> = (1..=count)
        .map(|order| format!("{{\"order\": {order}}}"))
        .collect();
    if let Some((number, text)) = bad {
        text.clone_into(&mut lines[number - 1]);
    }
    TempFile::of(lines.join("\n"))
}

/// Makes letters with a command that rejects its jobs. Returns their ids, the newest job first.
pub(crate) fn letters(db: &TestDatabase, queue: &Queue, count: usize) -> Vec<JobId> {
    let (file, name) = (payloads(count, None), queue.name());
    db.run(format!("enqueue {name} order.placed --file {file}"));
    let work = format!("work {name} --exec 'echo broken >&2; exit 65' --drain");
    db.run(work).tells(format!("dead {count}"));
    let open = queue.listed(&LetterFilter::new().queue(name).limit(1000));
    let mut ids: Vec<JobId> = open.iter().map(|letter| letter.id).collect();
    // The list is ordered by death, and jobs that run in parallel die in any order.
    ids.sort_unstable_by_key(|id| Reverse(*id));
    ids
}

/// A database with this many letters of the queue `orders`, and their ids, the newest job first.
fn with_letters(count: usize) -> (TestDatabase, Queue, Vec<JobId>) {
    let (db, queue) = TestDatabase::with_orders();
    let ids = letters(&db, &queue, count);
    (db, queue, ids)
}
