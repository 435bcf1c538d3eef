//! The checker: a pure function from the records to violations.

mod attempts;
mod batches;
mod breakers;
mod checkpoints;
mod clients;
mod groups;
mod job_history;
mod replay;
mod requests;
mod rule;
mod schedules;
mod whole;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;
use std::ops::RangeInclusive;

use uuid::Uuid;

use crate::db_trace::{BreakerRow, Change, Place, Renewal, RowChange, SlotChange, Tick};
use crate::history::{HandlerEvent, HistoryLine};

use attempts::Attempt;
use job_history::{JobHistory, LeaseSpan};
use requests::Calls;
pub(crate) use rule::Rule;

/// How long a commit may take until others see it, in microseconds.
const IN_FLIGHT: i64 = 250_000;
/// How many crashes make a job a letter, and how many refunds a job that had started may have.
const MAX_CRASHES: i32 = 3;
const MAX_REFUNDS: i32 = 10;

/// All records of a run.
#[derive(Debug, Default)]
pub(crate) struct Records {
    /// Of all clients, with the faults; by time.
    pub(crate) history: Vec<HistoryLine>,
    /// By job, then in order.
    pub(crate) trace: Vec<RowChange>,
    pub(crate) renewals: Vec<Renewal>,
    /// By job, then by time.
    pub(crate) handlers: Vec<HandlerEvent>,
    /// The checkpoints that handlers wrote, by job, then by time.
    pub(crate) checkpoints: Vec<HandlerEvent>,
    /// The histories of the schedules, in order.
    pub(crate) ticks: Vec<Tick>,
    /// The turns of groups, in order.
    pub(crate) slots: Vec<SlotChange>,
    /// By breaker, then in order.
    pub(crate) breakers: Vec<BreakerRow>,
    /// How often transactional handlers wrote, by job and generation.
    pub(crate) effects: BTreeMap<(i64, i32), i64>,
    /// The published counters at the end, by name, summed over their labels.
    pub(crate) counters: BTreeMap<String, i64>,
    /// Where the library finds that its counters differ from the rows.
    pub(crate) drift: Vec<String>,
    /// Rows that belong to no job or letter, once the queue has drained.
    pub(crate) leftovers: Vec<String>,
    /// What the server says of statements that are wrong.
    pub(crate) wrong_statements: Vec<String>,
    pub(crate) terms: Terms,
}

/// The settings that the rules depend on, and what was done to the run.
#[derive(Clone, Debug, Default)]
pub(crate) struct Terms {
    /// In microseconds.
    pub(crate) lease: i64,
    pub(crate) server_starts: Vec<i64>,
    /// When clients and handlers may have seen commits that a failover lost.
    pub(crate) lossy: Vec<RangeInclusive<i64>>,
    /// Whether no fault was injected and no deadline passed on a slow machine, so that neither excuses anything.
    pub(crate) is_calm: bool,
}

/// A broken rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Violation {
    pub(crate) rule: Rule,
    /// The affected job, if it is one.
    pub(crate) job: Option<i64>,
    pub(crate) at: i64,
    pub(crate) what: String,
}

/// The violations, and how much was checked: without events there are no violations either.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    pub(crate) violations: Vec<Violation>,
    pub(crate) counts: BTreeMap<String, i64>,
    lossy: Vec<RangeInclusive<i64>>,
}

impl Findings {
    fn add(&mut self, rule: Rule, job: impl Into<Option<i64>>, at: i64, what: impl Into<String>) {
        let (job, what) = (job.into(), what.into());
        self.violations.push(Violation {
            rule,
            job,
            at,
            what,
        });
    }

    /// Adds that the database lacks what a client or a handler saw at a time, unless a failover may have lost it.
    fn add_lack(
        &mut self,
        rule: Rule,
        job: impl Into<Option<i64>>,
        at: i64,
        what: impl Into<String>,
    ) {
        match self.lossy.iter().any(|times| times.contains(&at)) {
            true => self.count("findings that a failover excuses"),
            false => self.add(rule, job, at, what),
        }
    }

    fn count(&mut self, what: impl Into<String>) {
        *self.counts.entry(what.into()).or_default() += 1;
    }

    /// Returns how often something happened.
    pub(crate) fn times(&self, what: &str) -> i64 {
        self.counts.get(what).copied().unwrap_or_default()
    }
}

/// What the rules about the whole run read: the records, the jobs that they tell of, and what clients asked for.
struct Run<'a> {
    records: &'a Records,
    terms: &'a Terms,
    jobs: HashMap<i64, JobHistory>,
    /// The attempts at each job.
    attempts: HashMap<i64, Vec<Attempt<'a>>>,
    calls: Calls<'a>,
    /// The renewals of each worker.
    renewed: HashMap<Uuid, Vec<&'a Renewal>>,
}

impl<'a> Run<'a> {
    fn jobs(&self) -> impl Iterator<Item = &JobHistory> {
        self.jobs.values()
    }

    /// Returns the attempts at all jobs.
    fn attempts(&self) -> impl Iterator<Item = &Attempt<'a>> {
        self.attempts.values().flatten()
    }

    fn job_of(&self, attempt: &Attempt<'_>) -> &JobHistory {
        &self.jobs[&attempt.begin.job]
    }

    /// Returns the lease of an attempt, unless it has none.
    fn lease_of(&self, attempt: &Attempt<'_>) -> Option<&LeaseSpan> {
        Some(&self.job_of(attempt).leases[attempt.lease?])
    }

    /// Whether a worker has renewed this often between two times, and so has read what it reads as often as it renews.
    fn has_read(&self, worker: Uuid, since: i64, until: i64, times: usize) -> bool {
        let renewed = self.renewed.get(&worker).into_iter().flatten();
        let between = renewed.filter(|renewal| since < renewal.began && renewal.at < until);
        between.count() >= times
    }

    /// Returns a job under each of its leases.
    fn leases_of<'r>(&'r self, job: &'r JobHistory) -> Vec<Leased<'r>> {
        let attempts = &self.attempts[&job.job];
        let leases = job.leases.iter().enumerate();
        let leased = leases.map(|(lease, span)| Leased {
            job,
            span,
            attempt: attempts.iter().rfind(|one| one.lease == Some(lease)),
        });
        leased.collect()
    }
}

/// A job under one of its leases, and the attempt under that.
struct Leased<'a> {
    job: &'a JobHistory,
    span: &'a LeaseSpan,
    attempt: Option<&'a Attempt<'a>>,
}

/// Checks all rules.
pub(crate) fn check(records: &Records) -> Findings {
    let mut findings = Findings {
        lossy: records.terms.lossy.clone(),
        ..Findings::default()
    };
    if !records.terms.is_calm {
        findings.count("run with faults or late processes");
    }
    let renewals = records.renewals.iter();
    let renewed = grouped(renewals.map(|renewal| (renewal.worker, renewal)));
    let (jobs, attempts) = check_jobs(records, &renewed, &mut findings);
    let run = &Run {
        records,
        terms: &records.terms,
        jobs,
        attempts,
        calls: Calls::of(records),
        renewed,
    };
    for check in [
        batches::check,
        groups::check,
        clients::check,
        schedules::check,
        whole::check,
        breakers::check,
    ] {
        check(run, &mut findings);
    }
    findings
        .violations
        .sort_by_key(|violation| (violation.rule, violation.job, violation.at));
    findings
}

/// Checks what concerns one job at a time. Returns the histories of all jobs, and the attempts at each.
fn check_jobs<'a>(
    records: &'a Records,
    renewed: &HashMap<Uuid, Vec<&Renewal>>,
    findings: &mut Findings,
) -> (HashMap<i64, JobHistory>, HashMap<i64, Vec<Attempt<'a>>>) {
    let terms = &records.terms;
    let grants = grants(&records.trace);
    let (mut jobs, mut attempts) = (HashMap::new(), HashMap::new());
    let mut handlers = records.handlers.as_slice();
    for changes in records.trace.chunk_by(|one, other| one.job == other.job) {
        let job = changes[0].job;
        let skipped = handlers.partition_point(|event| event.job < job);
        attempts::check_unknown_jobs(&handlers[..skipped], findings);
        handlers = &handlers[skipped..];
        let (own, rest) = handlers.split_at(handlers.partition_point(|event| event.job == job));
        handlers = rest;
        let history = replay::replay(changes, terms, renewed, &grants, findings);
        let tried = attempts::check(&history, own, records, findings);
        checkpoints::check(&history, own, records, findings);
        jobs.insert(job, history);
        attempts.insert(job, tried);
    }
    attempts::check_unknown_jobs(handlers, findings);
    (jobs, attempts)
}

/// Collects the values of each key, in order.
fn grouped<K: Eq + Hash, V>(pairs: impl IntoIterator<Item = (K, V)>) -> HashMap<K, Vec<V>> {
    let mut groups: HashMap<K, Vec<V>> = HashMap::new();
    for (key, value) in pairs {
        groups.entry(key).or_default().push(value);
    }
    groups
}

/// The claim that granted a lease first, and the number of jobs that the lease was granted with.
#[derive(Clone, Copy, Debug)]
struct Grant {
    tx: i64,
    jobs: u32,
}

fn grants(trace: &[RowChange]) -> HashMap<Uuid, Grant> {
    let mut by_lease: HashMap<Uuid, Grant> = HashMap::new();
    for change in trace {
        if let (Place::Leased, Change::In, Some(lease)) =
            (change.place, change.change, change.lease)
        {
            let tx = change.tx;
            let grant = by_lease.entry(lease).or_insert(Grant { tx, jobs: 0 });
            grant.tx = grant.tx.min(tx);
            grant.jobs += 1;
        }
    }
    by_lease
}
