//! The checker: a pure function from the records to violations.

mod attempts;
mod captures;
mod checkpoints;
mod clients;
mod delays;
mod entries;
mod follow_ups;
mod job_history;
mod path;
mod replay;
mod rule;
mod schedules;
mod unique_keys;
mod whole;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap};

use uuid::Uuid;

use crate::db_trace::{Change, Place, Renewal, RowChange};
use crate::history::{HandlerEvent, HistoryLine};

use job_history::JobHistory;
pub(crate) use path::{Path, Paths, SHORTEST_ROUND};
pub(crate) use rule::Rule;

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
    /// The ticks of the schedule, in order.
    pub(crate) ticks: Vec<Tick>,
    pub(crate) final_rows: Vec<FinalRow>,
    /// How often transactional handlers wrote, by job and generation.
    pub(crate) effects: BTreeMap<(i64, i32), i64>,
    /// The published counters at the end, by name, summed over their labels.
    pub(crate) counters: BTreeMap<String, i64>,
    /// Where the library finds that its counters differ from the rows.
    pub(crate) drift: Vec<String>,
    pub(crate) terms: Terms,
}

/// A row of the history of the schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tick {
    pub(crate) at: i64,
    /// `None`: the ticks were missed.
    pub(crate) job: Option<i64>,
    pub(crate) ticks: i64,
}

/// A job at the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FinalRow {
    pub(crate) job: i64,
    pub(crate) place: Place,
}

/// The settings that the rules depend on, and what was done to the run.
#[derive(Clone, Debug, Default)]
pub(crate) struct Terms {
    /// In microseconds.
    pub(crate) lease: i64,
    pub(crate) max_crashes: i32,
    /// How many refunds a job that had started may have.
    pub(crate) max_refunds: i32,
    pub(crate) server_starts: Vec<i64>,
    /// Acknowledged work of these times may be lost, because a lagging standby was promoted.
    pub(crate) lossy_windows: Vec<(i64, i64)>,
    /// Whether no fault was injected, so that nothing is excused by one.
    pub(crate) is_calm: bool,
}

impl Terms {
    /// Whether work acknowledged at this time may be lost.
    fn may_be_lost(&self, at: i64) -> bool {
        self.lossy_windows
            .iter()
            .any(|(from, to)| (from..=to).contains(&&at))
    }

    /// Whether the claim of an attempt that began at this time may be lost.
    fn claim_may_be_lost(&self, at: i64) -> bool {
        self.lossy_windows
            .iter()
            .any(|(from, to)| (*from..=to + 2 * self.lease).contains(&at))
    }
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

/// The violations, and how much was checked.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    pub(crate) violations: Vec<Violation>,
    pub(crate) totals: Totals,
    pub(crate) paths: Paths,
    /// Attempts at suspects.
    suspects: Vec<SuspectAttempt>,
}

/// An attempt at a suspect.
#[derive(Debug)]
struct SuspectAttempt {
    process: String,
    begin: i64,
    end: i64,
    /// Whether the next crash would make the job a letter.
    is_last_chance: bool,
}

/// How much happened: without events there are no violations either.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Totals {
    pub(crate) jobs: i64,
    pub(crate) changes: i64,
    pub(crate) claims: i64,
    pub(crate) done: i64,
    pub(crate) deaths: i64,
    pub(crate) redriven: i64,
    pub(crate) reaped: i64,
    pub(crate) released: i64,
    pub(crate) overlaps: i64,
    pub(crate) unknown: i64,
    pub(crate) unknown_stored: i64,
    /// Acknowledged jobs that a promoted standby did not have.
    pub(crate) lost_in_failover: i64,
}

/// Returns how many of these events concern a job that a promoted standby did not have, and whose id it gave
/// to a later one.
fn lost_with_an_id(events: &[HandlerEvent], first: &RowChange, terms: &Terms) -> usize {
    match terms.lossy_windows.is_empty() {
        true => 0,
        false => events.partition_point(|event| event.at < first.began),
    }
}

/// Checks all rules.
pub(crate) fn check(records: &Records) -> Findings {
    let mut findings = Findings::default();
    let renewed = renewals_by_worker(&records.renewals);
    let lease_sizes = lease_sizes(&records.trace);
    let mut jobs: HashMap<i64, JobHistory> = HashMap::new();
    let mut handlers = records.handlers.as_slice();
    for changes in records.trace.chunk_by(|one, other| one.job == other.job) {
        let job = changes[0].job;
        let skipped = handlers.partition_point(|event| event.job < job);
        attempts::check_unknown_jobs(&handlers[..skipped], &records.terms, &mut findings);
        handlers = &handlers[skipped..];
        let (own, rest) = handlers.split_at(handlers.partition_point(|event| event.job == job));
        handlers = rest;
        let (lost, own) = own.split_at(lost_with_an_id(own, &changes[0], &records.terms));
        attempts::check_unknown_jobs(lost, &records.terms, &mut findings);
        let history = replay::replay(
            changes,
            &records.terms,
            &renewed,
            &lease_sizes,
            &mut findings,
        );
        attempts::check(&history, own, records, &mut findings);
        checkpoints::check(&history, own, records, &mut findings);
        jobs.insert(job, history);
    }
    attempts::check_unknown_jobs(handlers, &records.terms, &mut findings);
    clients::check(records, &jobs, &mut findings);
    captures::check(records, &jobs, &mut findings);
    schedules::check(records, &jobs, &mut findings);
    follow_ups::check(&jobs, &mut findings);
    unique_keys::check(&jobs, &mut findings);
    whole::check(records, &jobs, &mut findings);
    findings.totals.jobs = i64::try_from(jobs.len()).unwrap_or(i64::MAX);
    findings.totals.changes = i64::try_from(records.trace.len()).unwrap_or(i64::MAX);
    findings
        .violations
        .sort_by_key(|violation| (violation.rule, violation.job, violation.at));
    findings
}

impl Findings {
    fn add(&mut self, rule: Rule, job: Option<i64>, at: i64, what: impl Into<String>) {
        self.violations.push(Violation {
            rule,
            job,
            at,
            what: what.into(),
        });
    }
}

/// The renewals of each worker, in order.
fn renewals_by_worker(renewals: &[Renewal]) -> HashMap<Uuid, Vec<&Renewal>> {
    let mut by_worker: HashMap<Uuid, Vec<&Renewal>> = HashMap::new();
    for renewal in renewals {
        by_worker.entry(renewal.worker).or_default().push(renewal);
    }
    by_worker
}

/// The number of jobs that each lease was granted with.
fn lease_sizes(trace: &[RowChange]) -> HashMap<Uuid, u32> {
    let mut by_lease = HashMap::new();
    for change in trace {
        if let (Place::Leased, Change::In, Some(lease)) =
            (change.place, change.change, change.lease)
        {
            *by_lease.entry(lease).or_default() += 1;
        }
    }
    by_lease
}
