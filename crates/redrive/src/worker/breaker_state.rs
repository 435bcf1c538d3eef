//! Tracks the breakers, the pause and the rate limits that affect a worker, and counts its outages, without the database.
//!
//! The renewer refreshes the state, the fetcher asks what it may claim, the slots ask before each job, and the
//! settler writes the reports. While nothing is open, paused, limited or counted, each check reads one flag.

mod plan;

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use crate::job::name::OF_QUEUES;
use crate::job::wait::MAX_WAIT;
use crate::pipeline::breaker::{BreakerCause, BreakerTrip, MIN_PROBE_WAIT, of_queue};
use crate::pipeline::claim::LeaseId;
use crate::pipeline::gates::{Gate, LimitStatus};
use crate::pipeline::probe::{Probe, ProbeVerdict};
use crate::sync::atomic::{AtomicBool, Ordering};
use crate::sync::{Instant, Mutex};
use crate::worker::flood::FloodGuard;
use crate::worker::latch::lock;
pub(crate) use plan::ClaimPlan;

/// The breakers that affect one queue of a worker.
pub(crate) struct LocalBreakers {
    /// The breaker of the whole queue.
    queue: String,
    /// Outages in a row that open a breaker.
    breaker_threshold: u32,
    /// The registered dependencies, by kind.
    dependencies: HashMap<String, String>,
    /// Nothing is open, paused or limited, and no outage is counted.
    quiet: AtomicBool,
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    /// The breakers that are not closed, by name.
    open: HashMap<String, OpenBreaker>,
    /// Outages in a row, by breaker.
    rows: HashMap<String, OutageStreak>,
    /// The probes that run in this worker.
    probes: HashMap<LeaseId, Probe>,
    /// When the pause of the queue ends, which this worker's clock finds without the database.
    paused_until: Option<Instant>,
    /// The rate limits of the queue and of kinds.
    limits: Arc<[LimitStatus]>,
    /// Whether each group has a rate limit, too.
    limits_groups: bool,
    /// Whether jobs of the queue may wait for their group.
    has_groups: bool,
    /// Counts the letters of the queue.
    flood: Option<FloodGuard>,
}

impl Known {
    fn is_paused(&self, now: Instant) -> bool {
        self.paused_until.is_some_and(|end| now < end)
    }
}

struct OpenBreaker {
    /// Whether too many letters opened it.
    is_flood: bool,
    /// The affected kinds. A queue's breaker affects all.
    kinds: BTreeSet<String>,
    /// When to probe; `None` if an operator must close the breaker.
    probe_at: Option<Instant>,
    /// Whether the database does not know of it yet.
    is_news: bool,
}

#[derive(Default)]
struct OutageStreak {
    outages: u32,
    kinds: BTreeSet<String>,
}

/// A breaker change to write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum BreakerReport {
    BreakerTrip(BreakerTrip),
    Probed(Probe, ProbeVerdict),
}

impl BreakerReport {
    pub(crate) fn name(&self) -> &str {
        match self {
            BreakerReport::BreakerTrip(trip) => &trip.name,
            BreakerReport::Probed(probe, _) => &probe.name,
        }
    }
}

/// How an attempt ended.
#[derive(Clone, Copy, Debug)]
pub(crate) enum AttemptEnd<'a> {
    Done,
    Outage {
        dependency: Option<&'a str>,
        message: &'a str,
    },
    Other,
    Unrun,
}

impl LocalBreakers {
    pub(crate) fn new(
        queue: &str,
        breaker_threshold: u32,
        dependencies: HashMap<String, String>,
        flood: Option<FloodGuard>,
    ) -> LocalBreakers {
        let known = Known {
            flood,
            ..Known::default()
        };
        LocalBreakers {
            queue: of_queue(queue),
            breaker_threshold,
            dependencies,
            quiet: AtomicBool::new(true),
            known: Mutex::new(known),
        }
    }

    /// Returns whether a pause or a breaker blocks this claimed job. No breaker blocks a probe.
    pub(crate) fn stops(&self, lease: LeaseId, kind: &str, now: Instant) -> bool {
        if self.quiet.load(Ordering::Relaxed) {
            return false;
        }
        let known = lock(&self.known);
        let concerned = |(name, gate): (&String, &OpenBreaker)| {
            *name == self.queue || gate.kinds.contains(kind)
        };
        known.is_paused(now)
            || !known.probes.contains_key(&lease) && known.open.iter().any(concerned)
    }

    /// Returns whether this lease is a probe of an open breaker.
    pub(crate) fn is_probe(&self, lease: LeaseId) -> bool {
        !self.quiet.load(Ordering::Relaxed) && lock(&self.known).probes.contains_key(&lease)
    }

    /// Records the end of an attempt. Returns the changes to write.
    pub(crate) fn note(
        &self,
        lease: LeaseId,
        kind: &str,
        attempt: AttemptEnd<'_>,
        now: Instant,
    ) -> Vec<BreakerReport> {
        let outage = match attempt {
            AttemptEnd::Outage {
                dependency,
                message,
            } => Some((self.breaker_of(kind, dependency), message)),
            AttemptEnd::Done | AttemptEnd::Other | AttemptEnd::Unrun => None,
        };
        if outage.is_none() && self.quiet.load(Ordering::Relaxed) {
            return Vec::new();
        }
        let mut known = lock(&self.known);
        let mut reports = Vec::new();
        if let Some(probe) = known.probes.remove(&lease) {
            let gate = known.open.get(&probe.name);
            let is_flood = gate.is_some_and(|gate| gate.is_flood);
            let is_its_outage = outage.is_some_and(|(name, _)| *name == probe.name);
            // A job that fails for another reason, such as an outage of another dependency, shows that its own works. After a
            // flood of letters it does not: only success closes the breaker.
            let ended = match attempt {
                AttemptEnd::Unrun => ProbeVerdict::Release,
                AttemptEnd::Outage { .. } | AttemptEnd::Other if is_flood || is_its_outage => {
                    ProbeVerdict::Reopen
                }
                AttemptEnd::Done | AttemptEnd::Outage { .. } | AttemptEnd::Other => {
                    ProbeVerdict::Close
                }
            };
            reports.push(BreakerReport::Probed(probe, ended));
        }
        match (outage, attempt) {
            (Some((name, message)), _) => {
                reports.extend(self.count(&mut known, name, kind, message, now));
            }
            (None, AttemptEnd::Unrun) => {}
            (None, _) => known.rows.retain(|name, row| {
                let broken = *name == self.queue
                    || row.kinds.contains(kind)
                    || self.dependencies.get(kind) == Some(name);
                !broken
            }),
        }
        self.settle_down(&known);
        reports
    }

    /// Counts an outage. The one that reaches the threshold opens the breaker, in this worker at
    /// once.
    fn count(
        &self,
        known: &mut Known,
        name: &str,
        kind: &str,
        message: &str,
        now: Instant,
    ) -> Option<BreakerReport> {
        if let Some(gate) = known.open.get(name)
            && (name == self.queue || gate.kinds.contains(kind))
        {
            // The job was running when the breaker opened.
            return None;
        }
        let row = known.rows.entry(name.to_owned()).or_default();
        row.outages += 1;
        row.kinds.insert(kind.to_owned());
        if row.outages < self.breaker_threshold {
            return None;
        }
        let row = known.rows.remove(name)?;
        Some(self.open(known, name, BreakerCause::Outage, row, message, now))
    }

    fn open(
        &self,
        known: &mut Known,
        name: &str,
        cause: BreakerCause,
        row: OutageStreak,
        message: &str,
        now: Instant,
    ) -> BreakerReport {
        let mut kinds = row.kinds;
        if name == self.queue {
            kinds.clear();
        }
        kinds.extend(self.registered(name));
        // It may be open already, for other kinds.
        let gate = known.open.entry(name.to_owned()).or_insert(OpenBreaker {
            is_flood: cause == BreakerCause::Flood,
            kinds: BTreeSet::new(),
            probe_at: Some(now + MIN_PROBE_WAIT),
            is_news: true,
        });
        gate.kinds.extend(kinds.iter().cloned());
        gate.is_news = true;
        self.quiet.store(false, Ordering::Relaxed);
        BreakerReport::BreakerTrip(BreakerTrip {
            name: name.to_owned(),
            cause,
            message: message.to_owned(),
            kinds: kinds.into_iter().collect(),
            outages: row.outages,
        })
    }

    /// Counts a letter. Opens the queue's breaker if there are too many, unless it is open already.
    pub(crate) fn note_letter(&self, now: Instant) -> Option<BreakerReport> {
        let mut known = lock(&self.known);
        let guard = known.flood.as_mut()?;
        let message = guard.is_over(now).then(|| guard.message())?;
        if known.open.contains_key(&self.queue) {
            return None;
        }
        let (cause, row) = (BreakerCause::Flood, OutageStreak::default());
        Some(self.open(&mut known, &self.queue, cause, row, &message, now))
    }

    /// Whether jobs of the queue may wait for their group.
    pub(crate) fn has_groups(&self) -> bool {
        lock(&self.known).has_groups
    }

    /// Whether each group of the queue has a rate limit.
    pub(crate) fn limits_groups(&self) -> bool {
        lock(&self.known).limits_groups
    }

    /// Replaces the known state. Returns whether the worker may claim more than before.
    pub(crate) fn learn(&self, gates: &[Gate], now: Instant) -> bool {
        let mut known = lock(&self.known);
        let (had_groups, was_paused) = (known.has_groups, known.is_paused(now));
        let had_limits = (known.limits.clone(), known.limits_groups);
        let before: BTreeSet<String> = known.open.keys().cloned().collect();
        (known.paused_until, known.has_groups) = (None, false);
        known.open.retain(|_, breaker| breaker.is_news);
        known.limits_groups = false;
        let mut limits = Vec::new();
        for gate in gates {
            let is_ours = gate.name == self.queue;
            match &*gate.cause {
                "pause" if is_ours => {
                    // A worker reads a pause without an end again and again, so it needs none that is longer.
                    let lasts = gate.probe_in.map_or(MAX_WAIT, |end| end.min(MAX_WAIT));
                    known.paused_until = Some(now + lasts);
                }
                "groups" if is_ours => known.has_groups = true,
                "rate" if is_ours => limits.push(LimitStatus {
                    kind: gate.kinds.first().cloned(),
                    set_at: gate.set_at,
                }),
                "group_rate" if is_ours => known.limits_groups = true,
                cause if is_ours || !gate.name.starts_with(OF_QUEUES) => {
                    let registered = self.registered(&gate.name);
                    let breaker = OpenBreaker {
                        is_flood: cause == BreakerCause::Flood.as_str(),
                        kinds: gate.kinds.iter().cloned().chain(registered).collect(),
                        probe_at: gate.probe_in.and_then(|wait| now.checked_add(wait)),
                        is_news: false,
                    };
                    // The answer may be from before its news.
                    known.open.entry(gate.name.clone()).or_insert(breaker);
                }
                _ => {}
            }
        }
        known.limits = limits.into();
        self.settle_down(&known);
        known.has_groups && !had_groups
            || was_paused && !known.is_paused(now)
            || (&known.limits, known.limits_groups) != (&had_limits.0, had_limits.1)
            || before.iter().any(|name| !known.open.contains_key(name))
    }

    /// Lets the next reading replace a breaker that was written, or could not be.
    pub(crate) fn written(&self, name: &str) {
        if let Some(gate) = lock(&self.known).open.get_mut(name) {
            gate.is_news = false;
        }
    }

    /// Probes a breaker again at this time, unless a reading of the gates says otherwise before.
    pub(crate) fn put_off(&self, name: &str, probe_at: Instant) {
        if let Some(gate) = lock(&self.known).open.get_mut(name) {
            gate.probe_at = Some(probe_at);
        }
    }

    /// Records a probe that runs here under this lease. No other process has the right until
    /// `until`.
    pub(crate) fn probing(&self, lease: LeaseId, probe: Probe, until: Instant) {
        self.put_off(&probe.name, until);
        lock(&self.known).probes.insert(lease, probe);
        self.quiet.store(false, Ordering::Relaxed);
    }

    fn breaker_of<'a>(&'a self, kind: &str, dependency: Option<&'a str>) -> &'a str {
        dependency
            .or_else(|| self.dependencies.get(kind).map(String::as_str))
            .unwrap_or(&self.queue)
    }

    fn registered(&self, name: &str) -> impl Iterator<Item = String> {
        let with = self
            .dependencies
            .iter()
            .filter(move |(_, dependency)| *dependency == name);
        with.map(|(kind, _)| kind.clone())
    }

    fn settle_down(&self, known: &Known) {
        let quiet = known.open.is_empty()
            && known.rows.is_empty()
            && known.probes.is_empty()
            && known.paused_until.is_none()
            && known.limits.is_empty();
        self.quiet.store(quiet, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests;
