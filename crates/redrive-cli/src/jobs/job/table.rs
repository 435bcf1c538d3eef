//! Jobs as a table.

use redrive::admin::LiveJob;

use crate::terminal::{Column, Table};
use crate::time::ago;

/// A table of live jobs. The age counts from the enqueue.
pub(super) fn job_table(jobs: &[LiveJob]) -> Table {
    let mut table = Table::new([
        Column::Number("ID"),
        Column::Text("QUEUE"),
        Column::Name("KIND"),
        Column::Word("STATE"),
        Column::Number("PRIORITY"),
        Column::Number("ATTEMPTS"),
        Column::Number("AGE"),
        Column::Text("UNIQUE KEY"),
    ]);
    for job in jobs {
        table.row([
            job.id.to_string(),
            job.queue.clone(),
            job.kind.clone(),
            job.state.to_string(),
            job.priority.to_string(),
            format!("{} of {}", job.attempts, job.max_attempts),
            ago(job.enqueued_at),
            job.unique_key.clone().unwrap_or_default(),
        ]);
    }
    table
}
