//! Gates: what a worker knows of the breakers that concern it, and the outages it counts.
//!
//! Nothing here asks the database: the pulse brings what the breakers are like, the fetcher asks
//! what it may claim, the slots ask before each job, and the settler writes the reports. While all
//! is well one flag is all that anybody looks at.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use crate::breaker::{
    BreakerCause, Ended, Ending, FIRST_WAIT, Gated, Probe, Trip, judge_probe, of_queue,
};
use crate::claim::LeaseId;
use crate::floor::atomic::{AtomicBool, Ordering};
use crate::floor::{Instant, Mutex};
use crate::worker::state::lock;

/// The longest time between two tries for a probe that is due and that somebody else may have.
const TRY_AGAIN: Duration = Duration::from_secs(1);

/// The gates of one worker.
pub(crate) struct Gates {
    /// The breaker of the whole queue.
    queue: String,
    /// After how many outages in a row a breaker opens.
    trip_after: u32,
    /// What the kinds were registered with.
    dependencies: HashMap<String, String>,
    /// Nothing is open and no outage is counted.
    quiet: AtomicBool,
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    /// The breakers that are not closed, by name.
    open: HashMap<String, Gate>,
    /// Outages in a row, by the breaker that they may open.
    rows: HashMap<String, Row>,
    /// The probes that run here.
    probes: HashMap<LeaseId, Probe>,
}

struct Gate {
    cause: BreakerCause,
    /// The kinds that wait; of a queue all do.
    kinds: BTreeSet<String>,
    wait: Duration,
    /// `None`: never by itself.
    probe_at: Option<Instant>,
    /// The database does not know of it yet.
    is_news: bool,
}

#[derive(Default)]
struct Row {
    outages: u32,
    kinds: BTreeSet<String>,
}

/// What is to be written about a breaker.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Report {
    Trip(Trip),
    Probed(Probe, Ended),
}

/// What an attempt came to, as the slot knows it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Attempt<'a> {
    Done,
    Outage {
        dependency: Option<&'a str>,
        message: &'a str,
    },
    Other,
    Unrun,
}

/// What the fetcher may claim now.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Plan {
    /// Nothing but a probe.
    pub(crate) is_shut: bool,
    /// The kinds to leave where they are.
    pub(crate) except: Vec<String>,
    /// A probe that is due.
    pub(crate) probe: Option<Due>,
    /// When the next probe is due, if none is.
    pub(crate) next: Option<Instant>,
}

/// A probe that is due.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Due {
    pub(crate) name: String,
    pub(crate) cause: BreakerCause,
    /// The kinds that would do; `None`: any that the worker handles.
    pub(crate) kinds: Option<Vec<String>>,
    pub(crate) wait: Duration,
}

impl Gates {
    pub(crate) fn new(
        queue: &str,
        trip_after: u32,
        dependencies: HashMap<String, String>,
    ) -> Gates {
        Gates {
            queue: of_queue(queue),
            trip_after,
            dependencies,
            quiet: AtomicBool::new(true),
            known: Mutex::default(),
        }
    }

    /// Whether a claimed job must not be started. A probe may.
    pub(crate) fn stops(&self, lease: LeaseId, kind: &str) -> bool {
        if self.quiet.load(Ordering::Relaxed) {
            return false;
        }
        let known = lock(&self.known);
        let concerned =
            |(name, gate): (&String, &Gate)| *name == self.queue || gate.kinds.contains(kind);
        !known.probes.contains_key(&lease) && known.open.iter().any(concerned)
    }

    /// How long a job of this kind waits in an outage: as long as the breaker, once it is open.
    pub(crate) fn park(&self, kind: &str, dependency: Option<&str>) -> Duration {
        let known = lock(&self.known);
        let gate = known.open.get(self.breaker_of(kind, dependency));
        gate.map_or(FIRST_WAIT, |gate| gate.wait)
    }

    /// Takes note of the end of an attempt; answers what is to be written.
    pub(crate) fn note(
        &self,
        lease: LeaseId,
        kind: &str,
        attempt: Attempt<'_>,
        now: Instant,
    ) -> Vec<Report> {
        let outage = match attempt {
            Attempt::Outage {
                dependency,
                message,
            } => Some((self.breaker_of(kind, dependency), message)),
            Attempt::Done | Attempt::Other | Attempt::Unrun => None,
        };
        if outage.is_none() && self.quiet.load(Ordering::Relaxed) {
            return Vec::new();
        }
        let mut known = lock(&self.known);
        let mut reports = Vec::new();
        if let Some(probe) = known.probes.remove(&lease) {
            let ending = match (attempt, outage) {
                (Attempt::Done, _) => Ending::Done,
                (Attempt::Unrun, _) => Ending::Unrun,
                (_, Some((name, _))) if name == probe.name => Ending::Outage,
                // An outage of something else shows that this is there.
                (Attempt::Outage { .. } | Attempt::Other, _) => Ending::Other,
            };
            let ended = judge_probe(probe.cause, ending);
            reports.push(Report::Probed(probe, ended));
        }
        match (outage, attempt) {
            (Some((name, message)), _) => {
                reports.extend(self.count(&mut known, name, kind, message, now));
            }
            (None, Attempt::Unrun) => {}
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

    /// Counts an outage; the one that completes the row opens the breaker, here at once.
    fn count(
        &self,
        known: &mut Known,
        name: &str,
        kind: &str,
        message: &str,
        now: Instant,
    ) -> Option<Report> {
        if let Some(gate) = known.open.get(name)
            && (name == self.queue || gate.kinds.contains(kind))
        {
            // It ran already when the breaker opened.
            return None;
        }
        let row = known.rows.entry(name.to_owned()).or_default();
        row.outages += 1;
        row.kinds.insert(kind.to_owned());
        if row.outages < self.trip_after {
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
        row: Row,
        message: &str,
        now: Instant,
    ) -> Report {
        let mut kinds = row.kinds;
        if name == self.queue {
            kinds.clear();
        }
        kinds.extend(self.registered(name));
        let gate = Gate {
            cause,
            kinds: kinds.clone(),
            wait: FIRST_WAIT,
            probe_at: Some(now + FIRST_WAIT),
            is_news: true,
        };
        known.open.insert(name.to_owned(), gate);
        self.quiet.store(false, Ordering::Relaxed);
        Report::Trip(Trip {
            name: name.to_owned(),
            cause,
            message: message.to_owned(),
            kinds: kinds.into_iter().collect(),
            outages: row.outages,
        })
    }

    /// Opens the breaker of the queue because of a flood of letters. `None`: it is open.
    pub(crate) fn flood(&self, message: &str, now: Instant) -> Option<Report> {
        let mut known = lock(&self.known);
        if known.open.contains_key(&self.queue) {
            return None;
        }
        let row = Row::default();
        Some(self.open(
            &mut known,
            &self.queue,
            BreakerCause::Flood,
            row,
            message,
            now,
        ))
    }

    /// Whether nothing is gated, as far as is known here.
    pub(crate) fn are_open(&self) -> bool {
        lock(&self.known).open.is_empty()
    }

    /// Takes over what the breakers are like; answers whether the worker may claim more than before.
    pub(crate) fn learn(&self, all: Vec<Gated>, now: Instant) -> bool {
        let mut known = lock(&self.known);
        let before: BTreeSet<String> = known.open.keys().cloned().collect();
        known.open.retain(|_, gate| gate.is_news);
        for gated in all {
            self.take_over(&mut known, gated, now);
        }
        self.settle_down(&known);
        before.iter().any(|name| !known.open.contains_key(name))
    }

    /// Takes over what one breaker is like, of which the database knows now.
    pub(crate) fn confirm(&self, gated: Gated, now: Instant) {
        let mut known = lock(&self.known);
        known.open.remove(&gated.name);
        self.take_over(&mut known, gated, now);
        self.settle_down(&known);
    }

    /// Forgets a breaker of which the database could not be told.
    pub(crate) fn abandon(&self, name: &str) {
        let mut known = lock(&self.known);
        known.open.remove(name);
        self.settle_down(&known);
    }

    fn take_over(&self, known: &mut Known, gated: Gated, now: Instant) {
        let mut kinds: BTreeSet<String> = gated.kinds.into_iter().collect();
        kinds.extend(self.registered(&gated.name));
        let concerns_us = gated.name == self.queue || !gated.name.starts_with("queue:");
        if !concerns_us {
            return;
        }
        let gate = Gate {
            cause: gated.cause,
            kinds,
            wait: gated.wait,
            probe_at: gated.probe_in.and_then(|wait| now.checked_add(wait)),
            is_news: false,
        };
        known.open.insert(gated.name, gate);
    }

    /// What the fetcher may claim; `handled` are the kinds of the worker, `None`: all.
    pub(crate) fn plan(&self, handled: Option<&[String]>, now: Instant) -> Plan {
        if self.quiet.load(Ordering::Relaxed) {
            return Plan::default();
        }
        let known = lock(&self.known);
        let mut plan = Plan::default();
        let mut except = BTreeSet::new();
        for (name, gate) in &known.open {
            if *name != self.queue {
                except.extend(gate.kinds.iter().cloned());
            }
        }
        plan.except = except.into_iter().collect();
        plan.is_shut = known.open.contains_key(&self.queue);
        for (name, gate) in &known.open {
            // While the whole queue waits, what some of its kinds wait for cannot be tried.
            if plan.is_shut && *name != self.queue {
                continue;
            }
            let kinds: Option<Vec<String>> = (*name != self.queue).then(|| {
                let ours = |kind: &&String| handled.is_none_or(|handled| handled.contains(kind));
                gate.kinds.iter().filter(ours).cloned().collect()
            });
            if kinds.as_ref().is_some_and(Vec::is_empty) {
                continue;
            }
            match gate.probe_at {
                Some(at) if at <= now => {
                    plan.probe = Some(Due {
                        name: name.clone(),
                        cause: gate.cause,
                        kinds,
                        wait: gate.wait,
                    });
                }
                Some(at) => plan.next = plan.next.into_iter().chain([at]).min(),
                None => {}
            }
        }
        plan
    }

    /// Takes note that a probe runs here under this lease, and that nobody else has the right to
    /// one until `until`.
    pub(crate) fn probing(&self, lease: LeaseId, probe: Probe, until: Instant) {
        let mut known = lock(&self.known);
        if let Some(gate) = known.open.get_mut(&probe.name) {
            gate.probe_at = Some(until);
        }
        known.probes.insert(lease, probe);
        self.quiet.store(false, Ordering::Relaxed);
    }

    /// Takes note that a probe that was due could not be had.
    pub(crate) fn put_off(&self, due: &Due, now: Instant) {
        if let Some(gate) = lock(&self.known).open.get_mut(&due.name) {
            let again = now + due.wait.min(TRY_AGAIN);
            gate.probe_at = gate.probe_at.map(|at| at.max(again));
        }
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
        let quiet = known.open.is_empty() && known.rows.is_empty() && known.probes.is_empty();
        self.quiet.store(quiet, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests;
