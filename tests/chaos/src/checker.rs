//! The checker: records in, violations out. Pure: it knows no server and no clock.

mod enqueues;
mod keys;
mod life;
mod runs;
mod whole;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap};
use std::fmt;

use uuid::Uuid;

use crate::record::{Effect, Line};
use crate::trail::{Event, Place, Renewal};

pub(crate) use life::{Life, Stay, Was};

/// Everything that was written down about a run.
#[derive(Debug, Default)]
pub(crate) struct Records {
    /// Of all clients, and what was done to them; by time.
    pub(crate) lines: Vec<Line>,
    /// By job, then in order.
    pub(crate) trail: Vec<Event>,
    pub(crate) renewals: Vec<Renewal>,
    /// By job, then by time.
    pub(crate) effects: Vec<Effect>,
    /// Where the rows are at the end.
    pub(crate) remains: Vec<Remains>,
    /// What handlers wrote in their own transactions: (job, generation) and how often.
    pub(crate) own: BTreeMap<(i64, i32), i64>,
    /// Counters as they are published at the end, by name, over all labels.
    pub(crate) counters: BTreeMap<String, i64>,
    /// What the library itself finds when it compares its counters with the rows.
    pub(crate) drift: Vec<String>,
    pub(crate) terms: Terms,
}

/// A row at the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Remains {
    pub(crate) job: i64,
    pub(crate) place: Place,
}

/// What was agreed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Terms {
    /// How long a worker that is gone keeps its jobs, in microseconds.
    pub(crate) lease: i64,
    /// How often a job may lose its worker.
    pub(crate) crashes: i32,
    /// How often a job that had started may be given back without a charge.
    pub(crate) refunds: i32,
    /// When the server started.
    pub(crate) starts: Vec<i64>,
    /// What was promised in these spans may be lost: a standby that was behind took over.
    pub(crate) forgiven: Vec<(i64, i64)>,
    /// Nothing was done to anything: what is lawful only under faults is not.
    pub(crate) is_calm: bool,
}

impl Terms {
    /// Whether a promise made at this moment may have been lost.
    fn forgives(&self, at: i64) -> bool {
        self.forgiven
            .iter()
            .any(|(from, to)| (from..=to).contains(&&at))
    }

    /// Whether a run that began at this moment may be of a claim that was lost.
    fn forgives_run(&self, at: i64) -> bool {
        self.forgiven
            .iter()
            .any(|(from, to)| (*from..=to + 2 * self.lease).contains(&at))
    }
}

/// What must hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Rule {
    Kept,
    NotInvented,
    OnePlace,
    OneSuccess,
    Fenced,
    LawfulReap,
    NoOverlap,
    Attempts,
    Lineage,
    Reason,
    RedriveOnce,
    NotStuck,
    OutageFree,
    OneOfAKey,
    NotEarly,
    CleanStop,
    Honest,
    Counters,
    LawfulPrune,
    SuspectsAlone,
    Verdict,
    OneTransaction,
}

impl Rule {
    /// Its number in the list of invariants, and what it says.
    pub(crate) fn says(self) -> (&'static str, &'static str) {
        match self {
            Rule::Kept => (
                "I1",
                "a job that was promised is done, a letter, or in the queue",
            ),
            Rule::NotInvented => ("I2", "every job comes from one enqueue"),
            Rule::OnePlace => (
                "I3",
                "a job is in one place, and every move leaves one and enters one",
            ),
            Rule::OneSuccess => ("I4", "a generation of a job succeeds once at most"),
            Rule::Fenced => (
                "I5",
                "only the worker that holds a lease settles its jobs, and a lease is granted once",
            ),
            Rule::LawfulReap => (
                "I6",
                "jobs are taken back only from a worker that has not renewed for a lease time",
            ),
            Rule::NoOverlap => (
                "I7",
                "two runs of a job overlap only when the older one lost its lease first",
            ),
            Rule::Attempts => (
                "I8",
                "attempts are charged by the claim, given back as agreed, and never too many",
            ),
            Rule::Lineage => (
                "I9",
                "a letter follows its job through death, redrive and recovery",
            ),
            Rule::Reason => ("I10", "a letter's reason is what the history proves"),
            Rule::RedriveOnce => ("I11", "a letter is redriven once for each time it waits"),
            Rule::NotStuck => ("I13", "nothing is left behind when all is well again"),
            Rule::OutageFree => ("I14", "an outage charges no attempt"),
            Rule::OneOfAKey => ("I15", "at most one live job has a unique key"),
            Rule::NotEarly => ("I17", "no job is ready before its time"),
            Rule::CleanStop => ("I19", "a worker that ended well holds nothing"),
            Rule::Honest => ("I20", "what was promised is there, what was refused is not"),
            Rule::Counters => ("I21", "counters are what happened"),
            Rule::LawfulPrune => ("I22", "no letter that waits is deleted"),
            Rule::SuspectsAlone => ("S1", "a suspect is claimed alone, one at a time"),
            Rule::Verdict => ("S2", "a verdict is what the handler said"),
            Rule::OneTransaction => (
                "G7",
                "what a handler writes in its own transaction is there once if its job is done",
            ),
        }
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (number, says) = self.says();
        write!(f, "{number} {self:?}: {says}")
    }
}

/// Something that must not be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Violation {
    pub(crate) rule: Rule,
    /// The job, if it is about one.
    pub(crate) job: Option<i64>,
    pub(crate) at: i64,
    pub(crate) what: String,
}

/// What was found, and what was looked at.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    pub(crate) violations: Vec<Violation>,
    pub(crate) tally: Tally,
    /// Runs of suspects: by whom, from when to when.
    suspects: Vec<(String, i64, i64)>,
}

/// How much happened: a check of nothing finds nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) jobs: i64,
    pub(crate) events: i64,
    pub(crate) claims: i64,
    pub(crate) done: i64,
    pub(crate) deaths: i64,
    pub(crate) redriven: i64,
    pub(crate) reaped: i64,
    pub(crate) released: i64,
    pub(crate) overlaps: i64,
    pub(crate) unknown: i64,
    pub(crate) unknown_stored: i64,
    /// Promises that a standby which was behind did not know of.
    pub(crate) forgiven: i64,
}

/// Checks everything.
pub(crate) fn check(records: &Records) -> Findings {
    let mut findings = Findings::default();
    let renewed = renewed(&records.renewals);
    let mates = mates(&records.trail);
    let mut lives: HashMap<i64, Life> = HashMap::new();
    let mut effects = records.effects.as_slice();
    for events in records.trail.chunk_by(|one, other| one.job == other.job) {
        let job = events[0].job;
        let skipped = effects.partition_point(|effect| effect.job < job);
        runs::strangers(&effects[..skipped], &records.terms, &mut findings);
        effects = &effects[skipped..];
        let (own, rest) = effects.split_at(effects.partition_point(|effect| effect.job == job));
        effects = rest;
        let life = life::of(events, &records.terms, &renewed, &mates, &mut findings);
        runs::check(&life, own, records, &mut findings);
        lives.insert(job, life);
    }
    runs::strangers(effects, &records.terms, &mut findings);
    enqueues::check(records, &lives, &mut findings);
    keys::check(&lives, &mut findings);
    whole::check(records, &lives, &mut findings);
    findings.tally.jobs = i64::try_from(lives.len()).unwrap_or(i64::MAX);
    findings.tally.events = i64::try_from(records.trail.len()).unwrap_or(i64::MAX);
    findings
        .violations
        .sort_by_key(|found| (found.rule, found.job, found.at));
    findings
}

impl Findings {
    fn found(&mut self, rule: Rule, job: Option<i64>, at: i64, what: impl Into<String>) {
        self.violations.push(Violation {
            rule,
            job,
            at,
            what: what.into(),
        });
    }
}

/// When each worker renewed, in order.
fn renewed(renewals: &[Renewal]) -> HashMap<Uuid, Vec<&Renewal>> {
    let mut by_worker: HashMap<Uuid, Vec<&Renewal>> = HashMap::new();
    for renewal in renewals {
        by_worker.entry(renewal.worker).or_default().push(renewal);
    }
    by_worker
}

/// How many jobs each lease was granted with.
fn mates(trail: &[Event]) -> HashMap<Uuid, u32> {
    let mut by_lease = HashMap::new();
    for event in trail {
        if let (Place::Leased, crate::trail::Step::In, Some(lease)) =
            (event.place, event.step, event.lease)
        {
            *by_lease.entry(lease).or_default() += 1;
        }
    }
    by_lease
}
