//! Checkpoint: stores the checkpoints and the progress of leased jobs, under their leases.

use crate::db::run::{Run, values_of};
use crate::db::session::Session;
use crate::db::sql;
use crate::error::Result;
use crate::job::job::JobId;
use crate::job::payload::Json;
use crate::pipeline::claim::LeaseId;

const DOING: &str = "store checkpoints";

/// The headers to set on a leased job.
pub(crate) type Checkpoint<'a> = (LeaseId, JobId, &'a Json);

/// Stores checkpoints. A lost lease stores none, which is no error.
pub(crate) fn store(session: &mut dyn Run, checkpoints: &[Checkpoint<'_>]) -> Result<()> {
    if checkpoints.is_empty() {
        return Ok(());
    }
    let leases = values_of(checkpoints, |(lease, ..)| lease.0);
    let jobs = values_of(checkpoints, |(_, job, _)| job.get());
    let headers = values_of(checkpoints, |(.., headers)| *headers);
    session.run(DOING, &sql::CHECKPOINT, &[&leases, &jobs, &headers])?;
    Ok(())
}

/// Stores checkpoints beside a renewal. It waits only briefly for a lease that another session has
/// locked, because the next renewal must not be late.
pub(crate) fn store_soon(session: &mut Session, checkpoints: &[Checkpoint<'_>]) -> Result<()> {
    let also = "SET LOCAL lock_timeout = '100ms'";
    session.read_committed(DOING, also, |session| store(session, checkpoints))
}
