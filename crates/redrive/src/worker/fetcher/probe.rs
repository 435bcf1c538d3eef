//! Claims a probe for an open breaker.

use std::sync::Arc;

use super::Fetcher;
use crate::error::Result;
use crate::pipeline::breaker::{Probe, ProbeVerdict, end_probe, take_probe};
use crate::pipeline::claim::{ClaimRequest, ClaimedJob, claim};
use crate::pipeline::gates::read_gates;
use crate::sync::Instant;
use crate::worker::breaker_state::{ClaimPlan, DueProbe};

impl Fetcher<'_> {
    /// Claims one job as a probe, unless another process has the right to it.
    pub(super) fn probe(&mut self, due: &DueProbe, plan: &ClaimPlan) -> Result<Vec<ClaimedJob>> {
        let asked_at = Instant::now();
        // Until the database grants the probe.
        self.state.breakers.put_off(due, asked_at);
        let except: Vec<String> = match &due.kinds {
            // Other breakers still apply.
            None => plan.except.clone(),
            Some(_) => Vec::new(),
        };
        self.promote()?;
        let lasting = self.state.config.lease;
        let kinds: Option<Arc<[String]>> = match &due.kinds {
            Some(kinds) => Some(kinds.as_slice().into()),
            None => self.state.config.kinds.clone(),
        };
        let request = ClaimRequest {
            kinds: kinds.clone(),
            except: (!except.is_empty()).then(|| except.into()),
            ..self.claimer.request()
        };
        let (name, cause) = (due.name.clone(), due.cause);
        let had = self.call("probe", move |session| {
            let queue = Arc::clone(&request.queue);
            let taken = take_probe(
                session,
                &name,
                request.worker,
                lasting,
                &queue,
                kinds.as_deref(),
            )?;
            let Some(number) = taken else {
                // The breaker is closed, or another process has the probe.
                return Ok(Err(read_gates(session)?));
            };
            let probe = Probe {
                name,
                cause,
                number,
            };
            let claimed = claim(session, &request)?;
            if claimed.is_empty() {
                end_probe(session, &probe, ProbeVerdict::Release)?;
            }
            Ok(Ok((probe, claimed)))
        })?;
        let (probe, claimed) = match had {
            Ok(had) => had,
            Err(gates) => {
                self.state.breakers.learn(gates, Instant::now());
                // The probe was not available.
                self.state.breakers.put_off(due, Instant::now());
                return Ok(Vec::new());
            }
        };
        self.state.hold(&claimed);
        if let Some(job) = claimed.first() {
            log::info!(
                "{} breaker={} job={}: probing",
                self.state,
                probe.name,
                job.meta.id
            );
            let breakers = &self.state.breakers;
            breakers.probing(job.lease, probe, asked_at + lasting);
        }
        Ok(claimed)
    }
}
