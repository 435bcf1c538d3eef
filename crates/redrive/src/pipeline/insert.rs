//! Insert: the statements that store new jobs.

use std::borrow::Borrow;

use crate::db::session::Parameter;
use crate::db::sql::{self, Sql};
use crate::error::{Error, Result};
use crate::job::job::JobId;
use crate::job::new_job::NewJob;
use crate::job::payload::Json;
use crate::sync::Row;

/// The maximum number of jobs of an INSERT. Above it an enqueue uses COPY; up to it, one INSERT is
/// as fast.
pub(crate) const MAX_INSERTED_JOBS: usize = 1000;

/// The result of enqueueing a job that may have a [unique key](NewJob::unique).
// Exhaustive: a job is stored, it is not, or another one is changed. Callers should handle all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Enqueued {
    /// The job was stored under this id.
    New(JobId),
    /// Nothing was stored: this live job holds the key, or it opened a [window](NewJob::unique_window)
    /// that is still open.
    Existing(JobId),
    /// This waiting job holds the key and was changed, as [`NewJob::replace`] asked.
    Replaced(JobId),
}

impl Enqueued {
    /// Returns the id of the stored job, or of the job that holds the key.
    pub fn id(self) -> JobId {
        match self {
            Enqueued::New(id) | Enqueued::Existing(id) | Enqueued::Replaced(id) => id,
        }
    }
}

/// Stores up to [`MAX_INSERTED_JOBS`] jobs in one statement, which `run` sends. Returns the result of each.
///
/// A plain job takes scalars. Jobs with a key, headers or a group go through a function, so that other jobs do not pay
/// for them.
pub(crate) fn insert<J: Borrow<NewJob>>(
    queue: &str,
    jobs: &[J],
    run: impl FnOnce(&'static Sql, &[Parameter<'_>]) -> Result<Vec<Row>>,
) -> Result<Vec<Enqueued>> {
    let id = |row: &Row| JobId::new(row.get("id"));
    let new = |row: &Row| Enqueued::New(id(row));
    let each = |rows: &[Row], enqueued: &dyn Fn(&Row) -> Enqueued| match rows.len() == jobs.len() {
        true => Ok(rows.iter().map(enqueued).collect()),
        false => Err(Error::lost(format!(
            "could not enqueue into queue `{queue}`: the database did not return an id for each job"
        ))),
    };
    if let [job] = jobs
        && let Some(job) = Some(job.borrow()).filter(|job| job.is_plain())
    {
        let attempts = job.max_attempts.cast_signed();
        let values: [Parameter<'_>; 5] =
            [&queue, &job.kind, &job.payload, &job.priority, &attempts];
        return each(&run(&sql::ENQUEUE_ONE, &values)?, &new);
    }
    let all = || jobs.iter().map(Borrow::borrow);
    let kinds: Vec<&str> = all().map(|job| &*job.kind).collect();
    let payloads: Vec<&Json> = all().map(|job| &job.payload).collect();
    let delays: Vec<i64> = all().map(NewJob::delay_ms).collect();
    let priorities: Vec<i16> = all().map(|job| job.priority).collect();
    let attempts: Vec<i32> = all().map(|job| job.max_attempts.cast_signed()).collect();
    let mut values: Vec<Parameter<'_>> =
        vec![&queue, &kinds, &payloads, &delays, &priorities, &attempts];
    if !all().any(|job| job.unique_key.is_some() || job.is_labelled()) {
        return each(&run(&sql::ENQUEUE, &values)?, &new);
    }
    let keys: Vec<Option<&str>> = all().map(|job| job.unique_key.as_deref()).collect();
    let headers: Vec<Option<Json>> = all().map(NewJob::stored_headers).collect::<Result<_>>()?;
    let groups: Vec<Option<&str>> = all().map(|job| job.group.as_deref()).collect();
    let changes: Vec<Option<&str>> = all().map(|job| Some(job.replace?.as_str())).collect();
    let windows: Vec<Option<i64>> = all().map(NewJob::window_ms).collect();
    let labels: [Parameter<'_>; 5] = [&keys, &headers, &groups, &changes, &windows];
    values.extend(labels);
    let enqueued = |row: &Row| match (row.get("is_new"), row.get("replaced")) {
        (true, _) => Enqueued::New(id(row)),
        (false, true) => Enqueued::Replaced(id(row)),
        (false, false) => Enqueued::Existing(id(row)),
    };
    each(&run(&sql::STORE_JOBS, &values)?, &enqueued)
}

/// Returns how many of these jobs share a statement with these limits: at least one, and up to this many bytes of payloads.
pub(crate) fn fitting<'a>(
    jobs: impl Iterator<Item = &'a NewJob>,
    max_jobs: usize,
    max_bytes: usize,
) -> usize {
    let mut bytes = 0;
    let fits = |(place, job): &(usize, &NewJob)| {
        bytes += job.payload.as_str().len();
        *place == 0 || bytes <= max_bytes
    };
    jobs.take(max_jobs).enumerate().take_while(fits).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_statement_has_a_bounded_number_of_jobs_and_bytes() {
        for (sizes, jobs) in [
            (vec![], 0),
            (vec![3; 9], 9),
            (vec![3; 11], 10),
            (vec![100, 3], 1),
            (vec![97, 3, 3], 2),
            (vec![200, 3], 1),
            (vec![3, 98], 1),
        ] {
            let payload = |size: &usize| format!("\"{}\"", "x".repeat(size - 2));
            let job = |size| NewJob::raw("k", &payload(size)).unwrap();
            let all: Vec<NewJob> = sizes.iter().map(job).collect();
            assert_eq!(fitting(all.iter(), 10, 100), jobs, "{sizes:?}");
        }
    }
}
