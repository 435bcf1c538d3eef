//! The jobs that a command acts on: by id at once, by queue and conditions after `--yes`.

use clap::Args;
use redrive::JobId;
use redrive::admin::{JobFilter, JobState, LiveJob};

use super::table::job_table;
use crate::context::Context;
use crate::dlq::{LeftOut, is_condition, quoted};
use crate::error::Result;
use crate::operator;
use crate::terminal::grouped;

/// How many jobs a dry run shows.
const SAMPLE: usize = 5;
/// The id of the argument that takes conditions on jobs.
pub(crate) const JOB_CONDITIONS: &str = "job_conditions";

/// The jobs to act on, and whether to act.
#[derive(Args, Debug)]
#[command(next_help_heading = "Selection")]
#[group(skip)]
pub(super) struct JobSelection {
    /// Jobs with these ids, or of this queue; conditions such as kind=invoice 'age>5m'; see below.
    #[arg(id = JOB_CONDITIONS, value_name = "ID|QUEUE|CONDITION", required = true)]
    words: Vec<String>,
    /// At most this many jobs.
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = clap::value_parser!(u64).range(1..))]
    limit: Option<u64>,
    /// The reason, for the audit log.
    #[arg(long, help_heading = "Action", value_name = "TEXT")]
    reason: Option<String>,
    /// Change nothing; show how many jobs match, and some of them.
    #[arg(long, help_heading = "Action", conflicts_with = "yes")]
    dry_run: bool,
    /// Act on all jobs that match. Jobs given by id need no --yes.
    #[arg(long, help_heading = "Action")]
    yes: bool,
}

impl JobSelection {
    /// The selected jobs in any state, without the limit.
    pub(super) fn filter(&self) -> Result<JobFilter> {
        filter_of(&self.words)
    }

    /// The selected jobs that the command may change.
    pub(super) fn limited(&self) -> Result<JobFilter> {
        let filter = self.filter()?;
        Ok(match self.limit {
            Some(limit) => filter.limit(limit),
            None => filter,
        })
    }

    /// How many of `matching` jobs the limit allows.
    pub(super) fn at_most(&self, matching: u64) -> u64 {
        self.limit.map_or(matching, |limit| limit.min(matching))
    }

    /// The ids at the start of the command line.
    pub(super) fn ids(&self) -> Vec<JobId> {
        ids_of(&self.words)
    }

    pub(super) fn is_dry_run(&self) -> bool {
        self.dry_run || (!self.yes && self.ids().is_empty())
    }

    pub(super) fn operator(&self) -> redrive::Operator {
        operator::current(self.reason.as_deref())
    }

    /// Words after "repeat the command" in a dry run.
    pub(super) fn repeat(&self) -> &'static str {
        match self.ids().is_empty() {
            true => "with --yes",
            false => "without --dry-run",
        }
    }

    /// The command line that acts.
    pub(super) fn command_line(&self, command: &str) -> String {
        let mut words = vec![format!("redrive job {command}")];
        words.extend(self.words.iter().map(|word| quoted(word)));
        words.extend(self.limit.map(|limit| format!("--limit {limit}")));
        let reason = self.reason.as_ref();
        words.extend(reason.map(|reason| format!("--reason {}", quoted(reason))));
        if self.ids().is_empty() {
            words.push("--yes".to_owned());
        }
        words.join(" ")
    }
}

fn ids_of(words: &[String]) -> Vec<JobId> {
    words.iter().map_while(|word| word.parse().ok()).collect()
}

/// The filter for ids or a queue, followed by conditions. A queue whose name is a number needs
/// `queue=`.
pub(super) fn filter_of(words: &[String]) -> Result<JobFilter> {
    let ids = ids_of(words);
    let (mut filter, rest) = match words.split_first() {
        _ if !ids.is_empty() => (
            JobFilter::new().ids(ids.iter().copied()),
            &words[ids.len()..],
        ),
        Some((queue, rest)) if !is_condition(queue) => (JobFilter::new().queue(queue), rest),
        _ => (JobFilter::new(), words),
    };
    for condition in rest {
        filter = filter.and(JobFilter::parse_condition(condition)?)?;
    }
    Ok(filter)
}

/// Matching jobs that a command leaves out, if there are any.
pub(super) fn left_out_jobs(
    count: u64,
    reason: &'static str,
    because: impl Into<String>,
) -> Option<LeftOut> {
    (count > 0).then(|| LeftOut {
        count,
        reason,
        state: None,
        because: because.into(),
        include: None,
    })
}

/// Prints some of the jobs in these states.
pub(super) fn write_sample(
    jobs: Vec<LiveJob>,
    states: &[JobState],
    cx: &mut Context<'_>,
) -> Result<()> {
    let mut jobs = jobs;
    jobs.retain(|job| states.contains(&job.state));
    jobs.truncate(SAMPLE);
    job_table(&jobs).write(cx.out)
}

/// The number of jobs that match, in words: `12 live jobs match`.
pub(super) fn matching(jobs: u64) -> String {
    match jobs {
        1 => "1 live job matches".to_owned(),
        _ => format!("{} live jobs match", grouped(jobs)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_ids_or_a_queue_and_then_conditions() {
        for (words, filter) in [
            (&[][..], ""),
            (&["orders"], "queue=orders"),
            (&["orders", "kind=a b"], "queue=orders kind=\"a b\""),
            (&["kind=a", "age>5m"], "kind=a age>5m"),
            (&["42"], "id=42"),
            (&["42", "43", "state=ready"], "state=ready id=42,43"),
            (&["queue=42"], "queue=42"),
        ] {
            let words: Vec<String> = words.iter().map(ToString::to_string).collect();
            assert_eq!(filter_of(&words).expect(filter).to_string(), filter);
        }
        for words in [["orders", "42"], ["kind=a", "orders"], ["42", "orders"]] {
            assert!(filter_of(&words.map(str::to_owned)).is_err(), "{words:?}");
        }
    }
}
