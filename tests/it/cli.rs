//! The command line, run in this process: output, exit codes and effects on the database.

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
mod tables;
mod terminal;

use std::cmp::Reverse;
use std::fs;
use std::path::PathBuf;

use redrive::dlq::LetterFilter;
use redrive::{JobId, Queue};
use redrive_tests::{TestDatabase, ran as redrive, stats};

/// Returns the number of jobs of a queue that can be claimed now.
fn ready(queue: &Queue) -> u64 {
    stats(queue.database(), queue.name()).map_or(0, |stats| stats.ready)
}

/// A file of payloads, removed at the end of the test.
pub(crate) struct Payloads(PathBuf);

impl Payloads {
    /// Writes `count` lines, with `bad` as one of them.
    pub(crate) fn new(db: &TestDatabase, count: usize, bad: Option<(usize, &str)>) -> Payloads {
        let mut lines: Vec<String> = (1..=count)
            .map(|order| format!("{{\"order\": {order}}}"))
            .collect();
        if let Some((number, text)) = bad {
            text.clone_into(&mut lines[number - 1]);
        }
        let file = std::env::temp_dir().join(format!("{}.ndjson", db.name()));
        fs::write(&file, lines.join("\n")).expect("write a file for the test");
        Payloads(file)
    }

    pub(crate) fn path(&self) -> &str {
        self.0.to_str().expect("a path in UTF-8")
    }
}

impl Drop for Payloads {
    fn drop(&mut self) {
        _ = fs::remove_file(&self.0);
    }
}

/// Makes letters with a command that rejects its jobs. Returns their ids, the newest job first.
pub(crate) fn letters(db: &TestDatabase, queue: &Queue, count: usize) -> Vec<JobId> {
    let payloads = Payloads::new(db, count, None);
    redrive(
        db,
        &[
            "enqueue",
            queue.name(),
            "order.placed",
            "--file",
            payloads.path(),
        ],
    )
    .exits_with(0);
    let worked = redrive(
        db,
        &[
            "work",
            queue.name(),
            "--exec",
            "echo broken >&2; exit 65",
            "--drain",
        ],
    )
    .exits_with(0);
    assert!(
        worked.err.contains(&format!("dead {count}")),
        "{}",
        worked.err
    );
    let open = queue
        .database()
        .dlq()
        .list(&LetterFilter::new().queue(queue.name()).limit(1000))
        .unwrap();
    let mut ids: Vec<JobId> = open.iter().map(|letter| letter.id).collect();
    // The list is ordered by death, and jobs that run in parallel die in any order.
    ids.sort_unstable_by_key(|id| Reverse(*id));
    ids
}
