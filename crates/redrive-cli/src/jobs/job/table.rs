//! Jobs as a table.

use redrive::admin::LiveJob;

use crate::prelude::*;

/// The group of a job, and the letter that holds it.
fn group(job: &LiveJob) -> String {
    let group = job.group_key.as_deref().unwrap_or_default();
    match job.held_by {
        Some(letter) => format!("{group} (held by letter {letter})"),
        None => group.to_owned(),
    }
}

/// A table of live jobs. The age counts from the enqueue.
pub(super) fn job_table(jobs: &[LiveJob]) -> Table {
    table!(job in jobs => {
        Number "ID" => job.id,
        Text "QUEUE" => job.queue,
        Name "KIND" => job.kind,
        Word "STATE" => job.state,
        Number "PRIORITY" => job.priority,
        Number "ATTEMPTS" => format!("{} of {}", job.attempts, job.max_attempts),
        Number "AGE" => ago(job.enqueued_at),
        Text "JOB GROUP" => group(job),
        Text "UNIQUE KEY" => job.unique_key.as_deref().unwrap_or_default(),
    })
}
