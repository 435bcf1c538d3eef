//! `redrive job list`: live jobs, one line each.

use redrive::admin::LiveJob;

use super::show::job_line;
use crate::dlq::none_in;
use crate::prelude::*;

/// List jobs that have not ended, or that are done and kept, the oldest id first
#[derive(Args, Debug)]
#[command(before_help = "\
Examples:
  redrive job list
  redrive job list orders state=ready 'age>5m'
  redrive job list orders 'attempts>=2' --json | jq .payload
  redrive job list orders state=done
")]
pub(crate) struct ListJobs {
    #[command(flatten)]
    words: Words,
    #[command(flatten)]
    page: Page,
}

impl ListJobs {
    pub(super) fn run(&self, cx: &mut Context<'_>) -> Result<Ending> {
        let filter = self.page.of(self.words.jobs()?);
        let mut jobs = cx.database()?.admin().jobs().list(&filter)?;
        let more = More::after(self.page.limit, "jobs", &mut jobs, |last| {
            format!("--after {}", last.id)
        });
        if jobs.is_empty() {
            let none = format!("no live job matches {filter}");
            return none_in(self.words.queue(), none.trim_end(), cx);
        }
        cx.list_some(&more, "", &jobs, job_line, &job_table(&jobs))
    }
}

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
