//! Bulk operations on waiting jobs, in batches of one transaction with its audit row.

use crate::admin::jobs::Jobs;
use crate::db::database::BatchProgress;
use crate::dlq::discard::Changed;
use crate::dlq::filter::JobFilter;
use crate::dlq::prelude::*;

/// The jobs per statement.
const BATCH: u64 = 500;

/// A change of waiting jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum JobChange {
    /// The jobs become letters with the cause `manual`.
    Cancel,
    /// The jobs get this priority, from -1,000 to 1,000. Jobs that have it do not change.
    SetPriority(i16),
    /// Delayed jobs become ready. Ready jobs do not change.
    RunNow,
}

impl JobChange {
    /// Returns the name in the statement, and the new priority.
    fn parameters(self) -> (&'static str, Option<i32>) {
        match self {
            JobChange::Cancel => ("cancel", None),
            JobChange::SetPriority(priority) => ("set_priority", Some(priority.into())),
            JobChange::RunNow => ("run_now", None),
        }
    }
}

row! {
    /// The number of jobs that a filter matches.
    #[derive(Copy, Default, PartialEq, Eq)]
    pub struct JobCount {
        /// Ready jobs.
        pub ready: u64,
        /// Delayed jobs.
        pub delayed: u64,
        /// Leased jobs.
        pub leased: u64,
        /// Waiting jobs that have the priority of a change.
        alike: u64,
    }
}

impl JobCount {
    /// Returns the number of jobs that wait, ready or delayed. Bulk operations change only these.
    pub fn waiting(&self) -> u64 {
        self.ready + self.delayed
    }

    /// Returns the number of all matching jobs.
    pub fn jobs(&self) -> u64 {
        self.waiting() + self.leased
    }
}

/// A changed job, the audit record of the operation, and the place of the job.
pub(crate) type ChangedJob = (JobId, Option<i64>, Json);

impl Jobs<'_> {
    /// Counts matching jobs by state, ignoring the limit.
    ///
    /// # Errors
    /// *Invalid* with [`JobFilter::after`]; otherwise if the database fails.
    pub fn count(&self, filter: &JobFilter) -> Result<JobCount> {
        Ok(self.preview(filter, JobChange::Cancel)?.0)
    }

    /// Counts matching jobs by state, and those that a change would change.
    ///
    /// # Errors
    /// Those of [`count`](Jobs::count).
    pub fn preview(&self, filter: &JobFilter, change: JobChange) -> Result<(JobCount, u64)> {
        let count: JobCount = self.db.ask_bulk().one(
            "count jobs",
            &sql::COUNT_JOBS,
            &[&filter.whole()?, &change.parameters().1],
        )?;
        let changed = match change {
            JobChange::Cancel => count.waiting(),
            JobChange::SetPriority(_) => count.waiting() - count.alike,
            JobChange::RunNow => count.delayed,
        };
        Ok((count, changed.min(filter.limit.unwrap_or(u64::MAX))))
    }

    /// Changes waiting jobs that match, delayed ones first. Leased jobs do not change.
    ///
    /// Each batch of 500 is one transaction with its audit row. A job that moves meanwhile, for
    /// example because a worker claims it, is left out.
    ///
    /// # Errors
    /// *Invalid* with [`JobFilter::after`] or a priority out of range; otherwise if the database
    /// fails.
    pub fn change(
        &self,
        filter: &JobFilter,
        change: JobChange,
        operator: &Operator,
    ) -> Result<Changed> {
        let mut place: Option<Json> = None;
        let (word, priority) = change.parameters();
        filter.in_batches(BATCH, |changed: &mut Changed, filter, most| -> Taken {
            let rows: Vec<ChangedJob> = self.db.ask_bulk().all(
                "change jobs",
                &sql::CHANGE_JOBS,
                &[
                    &word,
                    filter,
                    &place,
                    &None::<Json>,
                    &most,
                    operator,
                    &changed.audit,
                    &priority,
                    // No edited payloads.
                    &Vec::<JobId>::new(),
                    &Vec::<String>::new(),
                    &Vec::<String>::new(),
                ],
            )?;
            let Some((_, audit, last)) = rows.last() else {
                return Ok(None);
            };
            (changed.audit, place) = (*audit, Some(last.clone()));
            let jobs = rows.len();
            changed.ids.extend(rows.into_iter().map(|(id, ..)| id));
            let so_far = BatchProgress::of(changed.ids.len(), changed.audit);
            Ok(then(self.db.go_on(so_far), jobs))
        })
    }
}
