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

/// The database stored a job, and said nothing about it.
pub(crate) fn no_id(queue: &str) -> Error {
    Error::lost(format!(
        "could not enqueue into queue `{queue}`: the database returned no id"
    ))
}

/// Stores up to [`MAX_INSERTED_JOBS`] jobs in one statement, which `run` sends.
///
/// A plain job takes scalars. Jobs with a key, headers or a group go through a function, so that other jobs do not pay
/// for them.
pub(crate) fn insert<J: Borrow<NewJob>>(
    queue: &str,
    jobs: &[J],
    run: impl FnOnce(&'static Sql, &[Parameter<'_>]) -> Result<Vec<Row>>,
) -> Result<Vec<Enqueued>> {
    let id = |row: &Row| JobId::new(row.get("id"));
    if let [job] = jobs
        && let Some(job) = Some(job.borrow()).filter(|job| job.is_plain())
    {
        let attempts = job.max_attempts.cast_signed();
        let values: [Parameter<'_>; 5] =
            [&queue, &job.kind, &job.payload, &job.priority, &attempts];
        let rows = run(&sql::ENQUEUE_ONE, &values)?;
        return Ok(rows.iter().map(|row| Enqueued::New(id(row))).collect());
    }
    let jobs = || jobs.iter().map(Borrow::borrow);
    let kinds: Vec<&str> = jobs().map(|job| &*job.kind).collect();
    let payloads: Vec<&Json> = jobs().map(|job| &job.payload).collect();
    let delays: Vec<i64> = jobs().map(NewJob::delay_ms).collect();
    let priorities: Vec<i16> = jobs().map(|job| job.priority).collect();
    let attempts: Vec<i32> = jobs().map(|job| job.max_attempts.cast_signed()).collect();
    let mut values: Vec<Parameter<'_>> =
        vec![&queue, &kinds, &payloads, &delays, &priorities, &attempts];
    if !jobs().any(|job| job.unique_key.is_some() || job.is_labelled()) {
        let rows = run(&sql::ENQUEUE, &values)?;
        return Ok(rows.iter().map(|row| Enqueued::New(id(row))).collect());
    }
    let keys: Vec<Option<&str>> = jobs().map(|job| job.unique_key.as_deref()).collect();
    let headers: Vec<Option<Json>> = jobs().map(NewJob::stored_headers).collect::<Result<_>>()?;
    let groups: Vec<Option<&str>> = jobs().map(|job| job.group.as_deref()).collect();
    let changes: Vec<Option<&str>> = jobs().map(|job| Some(job.replace?.as_str())).collect();
    let windows: Vec<Option<i64>> = jobs().map(NewJob::window_ms).collect();
    let labels: [Parameter<'_>; 5] = [&keys, &headers, &groups, &changes, &windows];
    values.extend(labels);
    let rows = run(&sql::STORE_JOBS, &values)?;
    let enqueued = |row: &Row| match (row.get("is_new"), row.get("replaced")) {
        (true, _) => Enqueued::New(id(row)),
        (false, true) => Enqueued::Replaced(id(row)),
        (false, false) => Enqueued::Existing(id(row)),
    };
    Ok(rows.iter().map(enqueued).collect())
}
