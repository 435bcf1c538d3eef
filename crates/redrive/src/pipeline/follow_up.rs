//! Follow-up: stores the jobs that follow finished ones, in the transaction that ends those.
//!
//! The settle comes first. A job that follows one with the same unique key therefore finds the key
//! free, and nothing is stored under a lost lease.

use std::collections::{BTreeMap, HashSet};

use crate::db::run::Run;
use crate::db::session::Session;
use crate::db::sql;
use crate::error::{Error, Result};
use crate::job::follow_up::FollowUp;
use crate::job::job::JobId;
use crate::job::new_job::NewJob;
use crate::pipeline::checkpoint::{self, Checkpoint};
use crate::pipeline::claim::{LeaseId, WorkerIdentity};
use crate::pipeline::done_jobs;
use crate::pipeline::insert::{MAX_INSERTED_JOBS, fitting, insert};
use crate::pipeline::judge::Verdict;
use crate::pipeline::settle::{Repeat, settle};
use crate::pipeline::settlement::Settlement;

/// The payloads of a statement, in bytes. One payload has at most 1 MiB.
const MAX_STATEMENT_BYTES: usize = 8 * 1024 * 1024;
const DOING: &str = "settle jobs and store their follow-ups";

/// How long a settle waits for a lock. An open transaction may hold it for long, and meanwhile nothing else is settled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LockWait {
    /// As any statement of a worker, but for the unique keys of follow-ups.
    Usual,
    /// Hardly. It waited before.
    Short,
}

/// Writes verdicts as [`settle`] does, with the checkpoints of failed attempts, and with the follow-ups
/// of the finished jobs whose verdicts were written. Keeps what is to be kept of these. Wakes an idle worker for jobs that
/// no slot started.
pub(crate) fn settle_and_store(
    session: &mut Session,
    identity: &WorkerIdentity,
    settlements: &[Settlement],
    repeat: Repeat,
    lock_wait: LockWait,
) -> Result<HashSet<(LeaseId, JobId)>> {
    let is_short =
        lock_wait == LockWait::Short || settlements.iter().any(Settlement::has_unique_follow_up);
    let also = match is_short {
        true => "SET LOCAL lock_timeout = '100ms'",
        false => "",
    };
    let written = match !is_short && settlements.iter().all(Settlement::is_verdict_only) {
        true => settle(session, identity, settlements, repeat),
        false => session.read_committed(DOING, also, |session| {
            settle_in(session, identity, settlements, repeat)
        }),
    }?;
    if let Some(returned) = settlements.iter().find(|one| one.is_unstarted()) {
        let woken = session.query("wake a worker", &sql::WAKE, &[&&*returned.meta.queue]);
        // The verdicts are written, and the caller tries again.
        woken.map_err(|error| Error::lost("could not wake a worker").caused_by(error))?;
    }
    Ok(written)
}

/// Writes verdicts, checkpoints, kept jobs and follow-ups in the transaction of the caller.
pub(crate) fn settle_in(
    session: &mut dyn Run,
    identity: &WorkerIdentity,
    settlements: &[Settlement],
    repeat: Repeat,
) -> Result<HashSet<(LeaseId, JobId)>> {
    let checkpoints: Vec<Checkpoint<'_>> = settlements
        .iter()
        .filter(|one| one.verdict != Verdict::Done)
        .filter_map(|one| Some((one.lease, one.meta.id, one.checkpoint.as_ref()?)))
        .collect();
    checkpoint::store(session, &checkpoints)?;
    let written = settle(session, identity, settlements, repeat)?;
    let of_written = settlements
        .iter()
        .filter(|one| written.contains(&(one.lease, one.meta.id)));
    done_jobs::store(session, DOING, of_written.clone())?;
    store(session, DOING, of_written.flat_map(|one| &one.follow_ups))?;
    Ok(written)
}

/// Stores follow-ups, those of each queue in as few statements as their limits allow.
pub(crate) fn store<'a>(
    session: &mut dyn Run,
    doing: &str,
    follow_ups: impl IntoIterator<Item = &'a FollowUp>,
) -> Result<()> {
    // In the order of the names, so that two settles take unique keys in the same order.
    let mut by_queue: BTreeMap<&str, Vec<&NewJob>> = BTreeMap::new();
    for follow_up in follow_ups {
        let jobs = by_queue.entry(&follow_up.queue).or_default();
        jobs.push(&follow_up.job);
    }
    for (queue, jobs) in by_queue {
        let mut left = &jobs[..];
        while !left.is_empty() {
            let jobs = left.iter().copied();
            let fitting = fitting(jobs, MAX_INSERTED_JOBS, MAX_STATEMENT_BYTES);
            let (some, others) = left.split_at(fitting);
            // A unique key that a live job holds is no error, as in an enqueue.
            insert(queue, some, |sql, values| session.run(doing, sql, values))?;
            left = others;
        }
    }
    Ok(())
}
