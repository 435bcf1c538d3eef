//! Compares the handler log with the trace: every attempt has a claim, a lease has one attempt at
//! each job, and verdicts are what the handlers returned.

mod assignment;

use crate::checker::job_history::{JobHistory, LeaseEnd, LeaseSpan};
use crate::checker::{Findings, MAX_REFUNDS, Records, Rule, Terms};
use crate::history::{ClientEvent, HandlerEvent, Phase};

/// How long before its exit a worker may cancel handlers, in microseconds.
const STOPPING: i64 = 2_000_000;

/// An attempt at a job.
#[derive(Debug)]
pub(super) struct Attempt<'a> {
    pub(super) begin: &'a HandlerEvent,
    pub(super) end: Option<&'a HandlerEvent>,
    /// The index of its lease in the job's history, if it has one.
    pub(super) lease: Option<usize>,
}

/// Checks the attempts at a job, and returns them.
pub(super) fn check<'a>(
    job: &JobHistory,
    events: &'a [HandlerEvent],
    records: &Records,
    findings: &mut Findings,
) -> Vec<Attempt<'a>> {
    let terms = &records.terms;
    let mut attempts = assignment::attempts(job, events);
    let by_lease = assignment::assign(job, &mut attempts, terms, findings);
    for attempt in &attempts {
        check_begin(job, attempt, findings);
    }
    for (span, attempt) in job.leases.iter().zip(by_lease) {
        let attempt = attempt.map(|at| &attempts[at]);
        check_verdict(job, span, attempt, records, findings);
    }
    check_overlaps(job, &attempts, terms, findings);
    check_effects(job, &attempts, records, findings);
    attempts
}

/// Reports attempts at jobs that are not in the trace.
pub(super) fn check_unknown_jobs(events: &[HandlerEvent], findings: &mut Findings) {
    for event in events.iter().filter(|event| event.phase == Phase::Begin) {
        let text = format!("{} ran a job that never existed", event.process);
        findings.add_lack(Rule::NotInvented, event.job, event.at, text);
    }
}

/// Checks that an attempt begins under a claim, and before its worker returned the job.
fn check_begin(job: &JobHistory, attempt: &Attempt<'_>, findings: &mut Findings) {
    let at = attempt.begin.at;
    let Some(span) = attempt.lease.map(|lease| &job.leases[lease]) else {
        let text = format!(
            "{} ran attempt {} without a claim",
            attempt.begin.process, attempt.begin.attempt
        );
        return findings.add_lack(Rule::Attempts, job.job, at, text);
    };
    if at > span.to && matches!(span.end, LeaseEnd::Charged { .. } | LeaseEnd::Refunded) {
        let text = format!("it began {} µs after its worker returned it", at - span.to);
        findings.add_lack(Rule::NoOverlap, job.job, at, text);
    }
}

/// Returns how the handler ended. A result that came after the lease ended does not count.
pub(super) fn result_of(span: &LeaseSpan, attempt: Option<&Attempt<'_>>) -> Option<Phase> {
    let end = attempt.and_then(|attempt| attempt.end);
    end.filter(|end| end.at <= span.to || span.end == LeaseEnd::Done)
        .map(|end| end.phase)
}

/// Checks that a job left its lease as its handler's result demands.
fn check_verdict(
    job: &JobHistory,
    span: &LeaseSpan,
    attempt: Option<&Attempt<'_>>,
    records: &Records,
    findings: &mut Findings,
) {
    let terms = &records.terms;
    let result = result_of(span, attempt);
    let has_begun = attempt.is_some();
    // Its transaction may not commit, whatever the handler returned.
    let is_transactional = attempt.is_some_and(|attempt| attempt.begin.is_transactional);
    // A fault may lose a result.
    let mut is_excused = |may_be: bool| {
        if may_be && !terms.is_calm {
            findings.count("verdicts that a fault excuses");
        }
        may_be && !terms.is_calm
    };
    // Its refunds are used up.
    let is_spent = |refunds: i32| refunds >= MAX_REFUNDS;
    let (rule, what) = match (&span.end, result) {
        (LeaseEnd::Held | LeaseEnd::Reaped | LeaseEnd::ReapedDead, _)
        | (LeaseEnd::Done, Some(Phase::Done))
        | (LeaseEnd::Charged { .. }, Some(Phase::Retry))
        | (LeaseEnd::Refunded, Some(Phase::Snooze | Phase::Outage)) => return,
        (LeaseEnd::Charged { .. }, _) if is_excused(is_transactional) => return,
        (LeaseEnd::Charged { refunds }, None) if is_spent(*refunds) && has_begun => return,
        (LeaseEnd::Refunded, Some(_)) if is_excused(true) => return,
        (LeaseEnd::Refunded, Some(phase)) if phase != Phase::Done && stops(span, records) => return,
        (LeaseEnd::Refunded, None) if !has_begun || !is_spent(span.refunds) => return,
        (LeaseEnd::Done, _) => (Rule::Verdict, "it succeeded".to_owned()),
        (LeaseEnd::Charged { .. } | LeaseEnd::Dead { .. }, Some(Phase::Outage | Phase::Snooze))
            if !is_cancelled(&span.end) =>
        {
            (
                Rule::OutageFree,
                format!("attempt {} was charged", span.attempt),
            )
        }
        (LeaseEnd::Charged { .. }, _) => (Rule::Verdict, "its attempt was charged".to_owned()),
        (LeaseEnd::Refunded, Some(_)) => (Rule::Verdict, "it was refunded".to_owned()),
        (LeaseEnd::Refunded, None) => {
            let times = span.refunds + 1;
            (Rule::Attempts, format!("it was refunded {times} times"))
        }
        // The attempt of a handler that ended is charged.
        (
            LeaseEnd::Dead {
                is_refunded: true, ..
            },
            result,
        ) => match result {
            Some(_) if !is_excused(true) => (Rule::Attempts, "it was refunded".to_owned()),
            _ => return,
        },
        (LeaseEnd::Dead { cause, .. }, result) => match (&**cause, result) {
            ("rejected", Some(Phase::Reject)) | ("exhausted", Some(Phase::Retry)) => return,
            ("exhausted", _) if is_excused(is_transactional) => return,
            // Neither refunds nor attempts are left.
            ("exhausted", None) if is_spent(span.refunds) => return,
            ("manual", Some(phase)) if phase != Phase::Done || is_excused(true) => return,
            ("manual", None) if has_begun && is_spent(span.refunds) => return,
            // Its handler's transaction could not begin.
            ("manual", None) if is_excused(!has_begun) => return,
            _ => (Rule::Cause, format!("it died as {cause}")),
        },
    };
    let handler = match result {
        Some(phase) => format!("returned {phase:?}"),
        None if has_begun => "had not ended".to_owned(),
        None => "had not begun".to_owned(),
    };
    let text = format!("{what}, but its handler {handler}");
    findings.add(rule, job.job, span.to, text);
}

/// Whether the worker of a lease stopped when it ended. It charges no error that a handler returns after it was cancelled.
fn stops(span: &LeaseSpan, records: &Records) -> bool {
    records.history.iter().any(|line| {
        matches!(line.event, ClientEvent::Exited { code: Some(0) })
            && *line.process == *span.process
            && (0..STOPPING).contains(&(line.at - span.to))
    })
}

fn is_cancelled(end: &LeaseEnd) -> bool {
    matches!(end, LeaseEnd::Dead { cause, .. } if &**cause == "manual")
}

/// Counts overlapping attempts, which only a fault excuses.
fn check_overlaps(
    job: &JobHistory,
    attempts: &[Attempt<'_>],
    terms: &Terms,
    findings: &mut Findings,
) {
    for (at, younger) in attempts.iter().enumerate() {
        let is_open = |older: &&Attempt<'_>| older.end.is_some_and(|end| end.at > younger.begin.at);
        if let Some(older) = attempts[..at].iter().find(is_open) {
            findings.count("overlapping attempts");
            if terms.is_calm {
                let text = format!(
                    "{} ran it while {} did",
                    younger.begin.process, older.begin.process
                );
                findings.add(Rule::NoOverlap, job.job, younger.begin.at, text);
            }
        }
    }
}

/// Checks that a transactional handler's writes and the end of its job were one transaction.
fn check_effects(
    job: &JobHistory,
    attempts: &[Attempt<'_>],
    records: &Records,
    findings: &mut Findings,
) {
    let written = records
        .effects
        .range((job.job, i32::MIN)..=(job.job, i32::MAX));
    for (&(_, generation), &times) in written {
        let has_succeeded = job.done.iter().any(|(done, _)| *done == generation);
        if times != 1 || !has_succeeded {
            let text = format!(
                "generation {generation} wrote {times} effects, but generations {:?} succeeded",
                job.done
            );
            findings.add(Rule::OneTransaction, job.job, 0, text);
        }
    }
    // Without a lease it may be of another job, which had this id and was lost in a failover.
    let mut leased = attempts.iter().filter(|attempt| attempt.lease.is_some());
    if leased.any(|attempt| attempt.begin.is_transactional) {
        for (generation, _) in &job.done {
            if !records.effects.contains_key(&(job.job, *generation)) {
                let text = format!("generation {generation} succeeded without an effect");
                findings.add(Rule::OneTransaction, job.job, 0, text);
            }
        }
    }
}
