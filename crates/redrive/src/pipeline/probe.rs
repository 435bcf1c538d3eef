//! Probes: one job at a time runs while a breaker is open, to learn whether its dependency works.
//!
//! A probe searches for its job as a claim does, in [windows](super::claim::windows) if the queue is
//! large, so that it reads neither ten million jobs of other kinds nor as many dead rows at once. The
//! right is only taken for parts of the index that have a job. If the claim then finds none, because
//! another session has locked the job, the right is given back.

use std::time::Duration;

use crate::db::session::Session;
use crate::db::sql;
use crate::error::Result;
use crate::job::milliseconds::milliseconds;
use crate::job::words::words;
use crate::pipeline::breaker::{BreakerCause, MAX_PROBE_WAIT};
use crate::pipeline::claim::mark::IndexRange;
use crate::pipeline::claim::windows::IdRange;
use crate::pipeline::claim::{ClaimRequest, Parts};

/// The right to run one job as a probe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Probe {
    pub(crate) name: String,
    pub(crate) cause: BreakerCause,
    /// The fencing number; later probes have higher ones.
    pub(crate) number: i64,
}

/// The answer to a request for a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ProbeGrant {
    /// The right to the probe with this number.
    Taken(i64),
    /// A probe is due, but these parts have no job for it.
    NoJob,
    /// No probe is due, or another process has the right.
    NotDue,
}

/// Takes the right to a probe for `lasting`, if the parts of this claim have a job.
pub(crate) fn take_probe(
    session: &mut Session,
    name: &str,
    lasting: Duration,
    claim: &ClaimRequest,
) -> Result<ProbeGrant> {
    let (ranges, windows): (&[IndexRange], &[IdRange]) = match &claim.parts {
        Parts::Ranges(ranges) => (ranges, &[]),
        Parts::Ids(windows) => (&[], windows),
    };
    let from_ranks: Vec<i32> = ranges.iter().map(|it| it.from_rank).collect();
    let from_ids: Vec<i64> = ranges.iter().map(|it| it.from_id).collect();
    let to_ranks: Vec<i32> = ranges.iter().map(|it| it.to_rank).collect();
    let ranks: Vec<i32> = windows.iter().map(|it| it.rank).collect();
    let after: Vec<i64> = windows.iter().map(|it| it.after).collect();
    let to: Vec<i64> = windows.iter().map(|it| it.to).collect();
    let rows = session.query(
        &format!("take the probe of breaker `{name}`"),
        &sql::TAKE_PROBE,
        &[
            &name,
            &claim.worker.0,
            &milliseconds(lasting),
            &&*claim.queue,
            &claim.kinds.as_deref(),
            &claim.except.as_deref(),
            &claim.max_crashes,
            &from_ranks,
            &from_ids,
            &to_ranks,
            &ranks,
            &after,
            &to,
        ],
    )?;
    let Some(row) = rows.first() else {
        return Ok(ProbeGrant::NotDue);
    };
    let number: Option<i64> = row.get("number");
    Ok(match (number, row.get("has_job")) {
        (Some(number), _) => ProbeGrant::Taken(number),
        (None, true) => ProbeGrant::NotDue,
        (None, false) => ProbeGrant::NoJob,
    })
}

words! {
    /// The effect of a probe on its breaker. The words are in `end_probe.sql`.
    pub(crate) enum ProbeVerdict is "end of a probe" {
        Close = "close",
        Reopen = "reopen",
        Release = "give_back",
    }
}

/// Ends a probe. Returns `false` if the right was lost and nothing changed.
pub(crate) fn end_probe(session: &mut Session, probe: &Probe, ended: ProbeVerdict) -> Result<bool> {
    let rows = session.query(
        &format!("end the probe of breaker `{}`", probe.name),
        &sql::END_PROBE,
        &[
            &probe.name,
            &probe.number,
            &ended.as_str(),
            &milliseconds(MAX_PROBE_WAIT),
        ],
    )?;
    Ok(!rows.is_empty())
}
