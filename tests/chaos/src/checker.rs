//! The checker: a pure function from the records to violations.

mod attempts;
mod batches;
mod breakers;
mod captures;
mod checkpoints;
mod clients;
mod delays;
mod entries;
mod erasures;
mod follow_ups;
mod groups;
mod job_history;
mod limits;
mod path;
mod pauses;
mod letter_rows;
mod policies;
mod redaction;
mod replay;
mod requests;
mod rule;
mod schedules;
mod unique_keys;
mod updates;
mod validations;
mod whole;

#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap, HashSet};

use uuid::Uuid;

use crate::db_trace::breakers::BreakerRow;
use crate::db_trace::letters::LetterRow;
use crate::db_trace::policies::PolicyTick;
use crate::db_trace::updates::RowUpdate;
use crate::db_trace::{Change, PauseChange, Place, Renewal, RowChange, SlotChange};
use crate::history::{HandlerEvent, HistoryLine};

use job_history::JobHistory;
pub(crate) use path::{Path, Paths};
use requests::Requests;
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
    /// The histories of the schedules, in order.
    pub(crate) ticks: Vec<Tick>,
    /// The turns of groups, in order.
    pub(crate) slots: Vec<SlotChange>,
    /// The queues and groups that are diverted at the end.
    pub(crate) diverted_groups: Vec<(String, String)>,
    /// The changes of pauses, in order.
    pub(crate) pauses: Vec<PauseChange>,
    pub(crate) rate_limits: Vec<RateLimit>,
    /// By letter, then in order.
    pub(crate) letters: Vec<LetterRow>,
    /// In order.
    pub(crate) policy_ticks: Vec<PolicyTick>,
    /// By breaker, then in order.
    pub(crate) breakers: Vec<BreakerRow>,
    /// In order.
    pub(crate) updates: Vec<RowUpdate>,
    pub(crate) final_rows: Vec<FinalRow>,
    /// How often transactional handlers wrote, by job and generation.
    pub(crate) effects: BTreeMap<(i64, i32), i64>,
    /// The published counters at the end, by name, summed over their labels.
    pub(crate) counters: BTreeMap<String, i64>,
    /// Where the library finds that its counters differ from the rows.
    pub(crate) drift: Vec<String>,
    /// Rows that belong to no job or letter, once the queue has drained.
    pub(crate) leftovers: Vec<String>,
    pub(crate) terms: Terms,
}

/// A row of the history of a schedule, or a change of its pause.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Tick {
    pub(crate) schedule: String,
    pub(crate) outcome: TickOutcome,
    pub(crate) tx: i64,
    /// When the row was written.
    pub(crate) written: i64,
    /// The time of the tick.
    pub(crate) at: i64,
    /// `None`: the ticks were missed.
    pub(crate) job: Option<i64>,
    pub(crate) ticks: i64,
}

/// What a row of the history of a schedule says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TickOutcome {
    Fired,
    Missed,
    Overlapped,
    Triggered,
    Paused,
    Resumed,
}

/// How many jobs of a queue, or of each group in it, may start: `burst`, and `per_second` in each second.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct RateLimit {
    pub(crate) queue: String,
    pub(crate) is_of_each_group: bool,
    pub(crate) burst: f64,
    pub(crate) per_second: f64,
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
    /// Whether the redaction rule was set before the first job died.
    pub(crate) redacts: bool,
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
    /// Attempts in batches.
    batches: Vec<batches::Member>,
    /// Jobs of groups under their leases.
    group_runs: Vec<groups::runs::GroupRun>,
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

/// Splits the events of an id: those of a job that a promoted standby did not have, and those of the later job that
/// got its id. A handler of the lost job may end long after its successor began.
fn without_lost<'a>(
    events: &'a [HandlerEvent],
    first: &RowChange,
    terms: &Terms,
) -> (&'a [HandlerEvent], Cow<'a, [HandlerEvent]>) {
    let split = match terms.lossy_windows.is_empty() {
        true => 0,
        false => events.partition_point(|event| event.at < first.began),
    };
    let (lost, own) = events.split_at(split);
    let call = |event: &HandlerEvent| (event.process.clone(), event.call);
    let calls: HashSet<(String, u64)> = lost.iter().map(call).collect();
    if !own.iter().any(|event| calls.contains(&call(event))) {
        return (lost, Cow::Borrowed(own));
    }
    let own = own.iter().filter(|event| !calls.contains(&call(event)));
    (lost, own.cloned().collect())
}

/// Checks all rules.
pub(crate) fn check(records: &Records) -> Findings {
    let mut findings = Findings::default();
    let renewed = renewals_by_worker(&records.renewals);
    let grants = grants(&records.trace);
    let mut jobs: HashMap<i64, JobHistory> = HashMap::new();
    let mut handlers = records.handlers.as_slice();
    for changes in records.trace.chunk_by(|one, other| one.job == other.job) {
        let job = changes[0].job;
        let skipped = handlers.partition_point(|event| event.job < job);
        attempts::check_unknown_jobs(&handlers[..skipped], &records.terms, &mut findings);
        handlers = &handlers[skipped..];
        let (own, rest) = handlers.split_at(handlers.partition_point(|event| event.job == job));
        handlers = rest;
        let (lost, own) = without_lost(own, &changes[0], &records.terms);
        attempts::check_unknown_jobs(lost, &records.terms, &mut findings);
        let history = replay::replay(changes, &records.terms, &renewed, &grants, &mut findings);
        attempts::check(&history, &own, records, &mut findings);
        checkpoints::check(&history, &own, records, &mut findings);
        jobs.insert(job, history);
    }
    attempts::check_unknown_jobs(handlers, &records.terms, &mut findings);
    batches::check(&mut findings);
    groups::runs::check(&mut findings);
    clients::check(records, &jobs, &mut findings);
    captures::check(records, &jobs, &mut findings);
    schedules::check(records, &jobs, &mut findings);
    follow_ups::check(&jobs, &mut findings);
    unique_keys::check(&jobs, &mut findings);
    groups::check(records, &mut findings);
    pauses::check(records, &jobs, &mut findings);
    limits::check(records, &jobs, &mut findings);
    whole::check(records, &jobs, &mut findings);
    let requests = Requests::of(records);
    erasures::check(&jobs, &requests, &mut findings);
    letter_rows::check(records, &requests, &mut findings);
    validations::check(records, &mut findings);
    policies::check(records, &mut findings);
    breakers::check(records, &requests, &mut findings);
    updates::check(records, &requests, &mut findings);
    for what in &records.leftovers {
        findings.add(Rule::Leftover, None, 0, what.clone());
    }
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
