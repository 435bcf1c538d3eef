//! Claims a probe for an open breaker.
//!
//! A probe searches for its job as a claim does, from marks of its own. It takes the right to probe only once a window
//! has a job, so a search behind millions of other jobs holds up no other prober. Until its marks reach the newest
//! ids, it uses half of the time of the fetcher.

use std::collections::hash_map::Entry;
use std::sync::Arc;
use std::time::Duration;

use super::Fetcher;
use crate::db::session::Session;
use crate::error::Result;
use crate::pipeline::claim::demand::Fill;
use crate::pipeline::claim::mark::Scan;
use crate::pipeline::claim::search::{Ended, Search};
use crate::pipeline::claim::{ClaimRequest, ClaimedJob};
use crate::pipeline::gates::{Gates, read_gates};
use crate::pipeline::group_tokens::claim_with_group_tokens;
use crate::pipeline::probe::{Probe, ProbeGrant, ProbeVerdict, end_probe, take_probe};
use crate::pipeline::tokens::take_token;
use crate::sync::{Instant, Mutex};
use crate::worker::breaker_state::{ClaimPlan, DueProbe, LocalLimits, TRY_AGAIN};
use crate::worker::claimer::places;
use crate::worker::latch::lock;

/// Of how many breakers a worker remembers where their probes look.
const MAX_SEARCHES: usize = 100;

/// Where the probes of a breaker look for their job.
#[derive(Clone)]
pub(super) struct ProbeSearch {
    /// The kinds that can be probed. `None`: all.
    kinds: Option<Arc<[String]>>,
    /// The kinds that another breaker holds back.
    except: Option<Arc<[String]>>,
    search: Arc<Mutex<Search>>,
}

/// The answer of the database to a request for a probe and its job.
enum ProbeAnswer {
    /// The right was not available. These are the gates now.
    NotDue(Gates),
    NoJob,
    /// The probe and its job. No job: another session holds it.
    Probe(Probe, Vec<ClaimedJob>),
}

/// The result of a search for a probe.
enum FoundProbe {
    Job(Vec<ClaimedJob>),
    /// None: the right was not available, or every job is locked.
    Nothing,
    /// None in what was searched.
    NoJob,
}

impl Fetcher {
    /// Claims one job as a probe, unless another process has the right to it.
    pub(super) fn probe(&mut self, due: &DueProbe, plan: &ClaimPlan) -> Result<Vec<ClaimedJob>> {
        let asked_at = Instant::now();
        let target = self.probe_search(due, plan);
        let found = self.find_probe(due, &target, &plan.limits);
        if let Ok(FoundProbe::NoJob) = found
            && self.state.breakers.has_groups()
        {
            self.offer_probe(ClaimRequest {
                kinds: target.kinds.clone(),
                except: target.except.clone(),
                ..self.claimer.request()
            })?;
        }
        let wait = match &found {
            Ok(FoundProbe::Job(_)) => Duration::ZERO,
            // Half of the time is for the jobs of other kinds.
            Ok(FoundProbe::NoJob) if lock(&target.search).is_behind() => asked_at.elapsed(),
            Ok(FoundProbe::NoJob | FoundProbe::Nothing) | Err(_) => TRY_AGAIN,
        };
        self.state.breakers.put_off(due, Instant::now(), wait);
        match found? {
            FoundProbe::Job(claimed) => Ok(claimed),
            FoundProbe::NoJob | FoundProbe::Nothing => Ok(Vec::new()),
        }
    }

    /// Returns where to search: where the last probe of the breaker did, unless the kinds have changed.
    fn probe_search(&mut self, due: &DueProbe, plan: &ClaimPlan) -> ProbeSearch {
        let (kinds, except): (Option<Arc<[String]>>, &[String]) = match &due.kinds {
            // Other breakers still apply.
            None => (self.state.config.kinds.clone(), &plan.except),
            Some(kinds) => (Some(kinds.as_slice().into()), &[]),
        };
        let new = || ProbeSearch {
            kinds: kinds.clone(),
            except: (!except.is_empty()).then(|| except.into()),
            search: Arc::new(Mutex::new(Search::new())),
        };
        // Handlers may name a dependency for each host. A forgotten search starts again.
        if self.probes.len() >= MAX_SEARCHES {
            self.probes.clear();
        }
        match self.probes.entry(due.name.clone()) {
            Entry::Occupied(mut known) => {
                let before = known.get();
                if before.kinds != kinds || before.except.as_deref().unwrap_or_default() != except {
                    known.insert(new());
                }
                known.get().clone()
            }
            Entry::Vacant(unknown) => unknown.insert(new()).clone(),
        }
    }

    /// Searches the next parts of the queue for a job to probe.
    fn find_probe(
        &mut self,
        due: &DueProbe,
        target: &ProbeSearch,
        limits: &LocalLimits,
    ) -> Result<FoundProbe> {
        self.promote()?;
        self.claimer.measure_for(
            &target.search,
            target.kinds.as_deref(),
            target.except.as_deref(),
        )?;
        let scans = {
            let (search, now) = (lock(&target.search), Instant::now());
            let mut scans = search.scans_before(now);
            scans.push(search.scan(now));
            scans
        };
        for scan in scans {
            match self.probe_with(scan, due, target, limits)? {
                FoundProbe::NoJob => {}
                found @ (FoundProbe::Job(_) | FoundProbe::Nothing) => return Ok(found),
            }
        }
        Ok(FoundProbe::NoJob)
    }

    /// Searches what this scan reads for a job to probe.
    fn probe_with(
        &mut self,
        scan: Scan,
        due: &DueProbe,
        target: &ProbeSearch,
        limits: &LocalLimits,
    ) -> Result<FoundProbe> {
        let asked_at = Instant::now();
        let lasting = self.state.config.lease;
        let look = lock(&target.search).look(scan, 0);
        let request = ClaimRequest {
            kinds: target.kinds.clone(),
            except: target.except.clone(),
            parts: look.parts(),
            ..self.claimer.request()
        };
        let (name, cause, limits) = (due.name.clone(), due.cause, limits.clone());
        let answer = self.call("probe", move |session| {
            let number = match take_probe(session, &name, lasting, &request)? {
                ProbeGrant::Taken(number) => number,
                ProbeGrant::NoJob => return Ok(ProbeAnswer::NoJob),
                // The breaker is closed, or another process has the probe.
                ProbeGrant::NotDue => return Ok(ProbeAnswer::NotDue(read_gates(session)?)),
            };
            let probe = Probe {
                name,
                cause,
                number,
            };
            // A job without a token of its group makes room for another one.
            let mut charged = claim_with_group_tokens(session, &request, limits.groups)?;
            match charged.jobs.first_mut() {
                Some(job) => take_its_token(session, &limits, job)?,
                None => _ = end_probe(session, &probe, ProbeVerdict::Release)?,
            }
            Ok(ProbeAnswer::Probe(probe, charged.jobs))
        });
        let took = asked_at.elapsed();
        let note = |claimed: &[ClaimedJob]| {
            let ended = Ended {
                asked_at,
                took,
                lead: 0,
                fill: Fill::of(claimed.len(), 1),
            };
            lock(&target.search).note(&look, ended, places(claimed));
        };
        let (probe, claimed) = match answer {
            Ok(ProbeAnswer::Probe(probe, claimed)) => (probe, claimed),
            Ok(ProbeAnswer::NoJob) => {
                note(&[]);
                return Ok(FoundProbe::NoJob);
            }
            Ok(ProbeAnswer::NotDue(gates)) => {
                self.state.breakers.learn(gates, Instant::now());
                return Ok(FoundProbe::Nothing);
            }
            Err(error) => {
                lock(&target.search).note_failure(&look, asked_at, took);
                return Err(error);
            }
        };
        self.state.hold(&claimed);
        note(&claimed);
        let Some(job) = claimed.first() else {
            return Ok(FoundProbe::Nothing);
        };
        log::info!(
            "{} breaker={} job={}: probing",
            self.state,
            probe.name,
            job.meta.id
        );
        let breakers = &self.state.breakers;
        breakers.probing(job.lease, probe, asked_at + lasting);
        Ok(FoundProbe::Job(claimed))
    }
}

/// Takes the token of a probe. Without one, the slot returns the job and the right to probe.
fn take_its_token(session: &mut Session, limits: &LocalLimits, job: &mut ClaimedJob) -> Result<()> {
    let Some(scope) = limits.scope(&job.meta.queue, Some(&job.meta.kind)) else {
        return Ok(());
    };
    let asked_at = Instant::now();
    let start_by = match take_token(session, &scope)? {
        true => asked_at + scope.hold,
        false => asked_at,
    };
    job.start_by = job.start_by.into_iter().chain([start_by]).min();
    Ok(())
}
