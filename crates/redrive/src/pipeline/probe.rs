//! Probes: one job at a time runs while a breaker is open, to learn whether its dependency works.
//!
//! A probe searches for its job as a claim does, in [windows](super::claim::windows) if the queue is
//! large, so that it reads neither ten million jobs of other kinds nor as many dead rows at once. The
//! transaction that claims the job takes the right to probe it, so a search without a job holds up no other
//! prober.

use std::time::Duration;

use crate::db::session::Session;
use crate::db::sql;
use crate::error::{Error, Result};
use crate::job::job::JobMeta;
use crate::job::milliseconds::milliseconds;
use crate::job::words::words;
use crate::pipeline::breaker::{MAX_PROBE_WAIT, MIN_PROBE_WAIT};
use crate::pipeline::claim::ClaimRequest;
use crate::pipeline::tokens::{ChargedJobs, TokenScope, claim_charged, take_token};

/// The right to run one job as a probe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Probe {
    pub(crate) name: String,
    /// The fencing number; later probes have higher ones.
    pub(crate) number: i64,
}

/// What was claimed as a probe, and the right to probe it. No right: there is no job. `None`: no probe is due, another
/// process has the right, or the job has no token, so nothing was claimed.
pub(crate) type ProbeAnswer = Option<(ChargedJobs, Option<Probe>)>;

/// Claims a job, takes its token if it has a `scope` of limits, and takes the right to probe it for `lasting`.
pub(crate) fn claim_probe(
    session: &mut Session,
    name: &str,
    lasting: Duration,
    request: &ClaimRequest,
    each_group: bool,
    scope: impl Fn(&JobMeta) -> Option<TokenScope>,
) -> Result<ProbeAnswer> {
    let doing = format!("take the probe of breaker `{name}`");
    let mut has_right = true;
    let answer = session.read_committed(&doing, "", |session| {
        // A job without a token of its group makes room for another one.
        let mut charged = claim_charged(session, request, each_group)?;
        if charged.jobs.is_empty() {
            return Ok((charged, None));
        }
        let mut has_token = true;
        for job in &mut charged.jobs {
            if let Some(scope) = scope(&job.meta) {
                let start_by = take_token(session, &scope)?;
                has_token &= start_by.is_some();
                job.start_by = job.start_by.into_iter().chain(start_by).min();
            }
        }
        let rows = session.query(
            &doing,
            &sql::TAKE_PROBE,
            &[&name, &request.identity.id.0, &milliseconds(lasting)],
        )?;
        let granted = rows.first().filter(|_| has_token);
        has_right = granted.is_some();
        let Some(row) = granted else {
            // Rolls the claim back.
            return Err(Error::unavailable(format!(
                "could not {doing}: it is not due, or has no token"
            )));
        };
        let (name, number) = (name.to_owned(), row.get("number"));
        Ok((charged, Some(Probe { name, number })))
    });
    match has_right {
        true => answer.map(Some),
        false => Ok(None),
    }
}

words! {
    /// The effect of a probe on its breaker. The words are in `end_probe.sql`.
    pub(crate) enum ProbeVerdict is "end of a probe" {
        Close = "close",
        Reopen = "reopen",
        Release = "give_back",
    }
}

/// Ends a probe. Changes nothing if the right was lost.
pub(crate) fn end_probe(session: &mut Session, probe: &Probe, ended: ProbeVerdict) -> Result<()> {
    session.query(
        &format!("end the probe of breaker `{}`", probe.name),
        &sql::END_PROBE,
        &[
            &probe.name,
            &probe.number,
            &ended.as_str(),
            &milliseconds(MAX_PROBE_WAIT),
            &milliseconds(MIN_PROBE_WAIT),
        ],
    )?;
    Ok(())
}
