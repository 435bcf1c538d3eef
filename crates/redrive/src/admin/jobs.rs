//! Jobs: the handle that lists and changes them; show and cancel one.

use std::collections::BTreeMap;
use std::time::SystemTime;

use serde_json::value::RawValue;
use uuid::Uuid;

use crate::db::admin::Admin;
use crate::db::database::Database;
use crate::dlq::filter::JobFilter;
use crate::dlq::history::AttemptRecord;
use crate::dlq::prelude::*;
use crate::job::job_state::JobState;

row! {
    /// A job that is live, or done and [kept](crate::WorkerBuilder::keep_done).
    pub struct LiveJob {
        /// The id.
        pub id: JobId,
        /// The queue.
        pub queue: String,
        /// The kind.
        pub kind: String,
        /// The state.
        pub state: JobState,
        /// The priority.
        pub priority: i16,
        /// The payload; `null` if the job is done.
        pub payload: Box<RawValue>,
        /// The attempts of this generation, including a running one.
        pub attempts: u32,
        /// The attempt budget.
        pub max_attempts: u32,
        /// How many times it was redriven.
        pub generation: u32,
        /// How many times its worker died.
        pub crashes: u32,
        /// When it became ready, becomes due, was leased, or was done.
        pub since: SystemTime,
        /// When it was first enqueued.
        pub enqueued_at: SystemTime,
        /// The oldest and the newest failed attempts.
        pub history: Vec<AttemptRecord>,
        /// The worker that leases it.
        pub worker: Option<Uuid>,
        /// The worker's host.
        pub host: Option<String>,
        /// The unique key.
        pub unique_key: Option<String>,
        /// The [group](crate::NewJob::group).
        pub group_key: Option<String>,
        /// The letter that holds the group, so that the ready job waits behind it.
        pub held_by: Option<JobId>,
        /// The headers.
        pub headers: BTreeMap<String, String>,
        /// When the current series of outages began.
        pub outage_since: Option<SystemTime>,
    }
}

words! {
    /// The outcome of a cancellation.
    pub enum Cancelled is "outcome of a cancellation" {
        /// The job was waiting. It is a letter now, with the cause `manual`.
        Dead = "dead",
        /// The job is running. Its handler is signalled; unless it succeeds, the job becomes a
        /// letter with the cause `manual`.
        Asked = "asked",
        /// The job is done, dead, or unknown.
        NotLive = "not_live",
    }
}

/// Lists live jobs and changes waiting ones in bulk. Returned by [`Admin::jobs`].
///
/// ```
/// use redrive::Operator;
/// use redrive::admin::{JobChange, JobFilter};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let db = redrive::connect(&std::env::var("DATABASE_URL")?)?;
/// # db.migrate()?;
/// let jobs = db.admin().jobs();
/// let urgent = JobFilter::new().queue("orders").kind("refund");
/// println!("{} refunds wait", jobs.count(&urgent)?.waiting());
/// let operator = Operator::new("maria@ops-1").reason("month end");
/// let changed = jobs.change(&urgent, JobChange::SetPriority(100), &operator)?;
/// println!("{} refunds run first", changed.ids.len());
/// # Ok(()) }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Jobs<'a> {
    pub(crate) db: &'a Database,
}

impl<'a> Admin<'a> {
    /// Returns the handle that lists live jobs and changes waiting ones in bulk.
    pub fn jobs(&self) -> Jobs<'a> {
        Jobs { db: self.db }
    }

    /// Returns a live job, or one that is done and [kept](crate::WorkerBuilder::keep_done). `None` if it is
    /// dead or gone. A job that died has a [letter](crate::dlq::Dlq::get).
    ///
    /// # Errors
    /// If the database fails.
    pub fn job(&self, id: JobId) -> Result<Option<LiveJob>> {
        let doing = format!("show job {id}");
        let filter = JobFilter::new().ids([id]).states(JobState::ALL);
        let asked = filter.parameter()?;
        let ask = self.db.ask();
        let found = ask.all(&doing, &sql::LIST_JOBS, &[&asked, &filter.after, &1_i64]);
        Ok(found?.pop())
    }
}

impl Jobs<'_> {
    /// Returns matching live jobs, the oldest id first. The limit defaults to 50. With `state=done`, returns those
    /// that are done and [kept](crate::WorkerBuilder::keep_done).
    ///
    /// # Errors
    /// If the database fails.
    pub fn list(&self, filter: &JobFilter) -> Result<Vec<LiveJob>> {
        self.db.ask_bulk().all(
            "list jobs",
            &sql::LIST_JOBS,
            &[&filter.parameter()?, &filter.after, &filter.most()],
        )
    }

    /// Cancels a job in any state and writes the audit: a waiting one at once, a running one by signalling its handler.
    ///
    /// The signal waits for nothing. The answer waits for a session that is ending the lease of
    /// the job, which is a matter of milliseconds unless its worker is stuck.
    ///
    /// # Errors
    /// If the database fails. A handler that was signalled may end, but if its worker is lost, the
    /// job runs again: repeat the call.
    pub fn cancel(&self, id: JobId, operator: &Operator) -> Result<Cancelled> {
        let doing = format!("cancel job {id}");
        let (id, operator) = (id.get(), operator.clone());
        // Both within one deadline.
        self.db.call(&doing.clone(), move |session| {
            let told = session.query(&doing, &sql::TELL_CANCELLED, &[&id])?;
            let (by, reason, was_told) = (operator.by(), operator.given_reason(), !told.is_empty());
            let given: [sql::Parameter<'_>; 4] = [&id, &by, &reason, &was_told];
            let cancelled: Cancelled = session.one(&doing, &sql::CANCEL_JOB, &given)?;
            // A worker may have taken the job meanwhile.
            if !was_told && cancelled == Cancelled::Asked {
                session.query(&doing, &sql::TELL_CANCELLED, &[&id])?;
            }
            Ok(cancelled)
        })
    }
}
