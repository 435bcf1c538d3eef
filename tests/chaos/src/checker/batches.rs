//! Checks batches: each job is judged by its own verdict, and after a failure it runs alone.

use std::collections::HashSet;
use std::sync::Arc;

use crate::checker::attempts::{Attempt, result_of};
use crate::checker::job_history::{JobHistory, LeaseEnd, LeaseSpan};
use crate::checker::{Findings, Rule, Terms, grouped};
use crate::history::{InBatch, Phase};
use crate::role::batch::JOBS;

/// An attempt in a batch.
#[derive(Debug)]
pub(super) struct Member {
    process: String,
    batch: InBatch,
    job: i64,
    queue: Arc<str>,
    begin: i64,
    /// How its handler ended, before its lease did.
    result: Option<Phase>,
    /// How it left its lease. `None`: its claim was lost.
    end: Option<LeaseEnd>,
}

/// Checks which attempts at a job may run with others, and collects those that did.
pub(super) fn check_job(
    job: &JobHistory,
    attempts: &[Attempt<'_>],
    terms: &Terms,
    findings: &mut Findings,
) {
    for (at, attempt) in attempts.iter().enumerate() {
        let Some(batch) = attempt.begin.batch else {
            continue;
        };
        let span = attempt.lease.map(|lease| &job.leases[lease]);
        findings.batches.push(Member {
            process: attempt.begin.process.clone(),
            batch,
            job: job.job,
            queue: Arc::clone(&job.queue),
            begin: attempt.begin.at,
            result: span.and_then(|span| result_of(span, Some(attempt))),
            end: span.map(|span| span.end.clone()),
        });
        if batch.jobs == 1 {
            continue;
        }
        let generation = attempt.begin.generation;
        let mut earlier = attempts[..at].iter();
        let previous = earlier.rfind(|earlier| earlier.begin.generation == generation);
        let has_failed = previous.is_some_and(|previous| has_failed(job, previous, terms));
        if let Some(why) = must_run_alone(span, has_failed)
            && !terms.claim_may_be_lost(attempt.begin.at)
        {
            let text = format!("{why}, but it ran in a batch of {} jobs", batch.jobs);
            findings.add(Rule::Batch, job.job, attempt.begin.at, text);
        }
    }
}

/// Whether the attempt failed, and its worker stored that. A fault may lose the result.
fn has_failed(job: &JobHistory, attempt: &Attempt<'_>, terms: &Terms) -> bool {
    let Some(span) = attempt.lease.map(|lease| &job.leases[lease]) else {
        return false;
    };
    let is_stored = match span.end {
        LeaseEnd::Charged { .. } => true,
        LeaseEnd::Refunded { .. } => terms.is_calm,
        _ => false,
    };
    is_stored && result_of(span, Some(attempt)) == Some(Phase::Retry)
}

/// Returns why a job may not run with others.
fn must_run_alone(span: Option<&LeaseSpan>, has_failed: bool) -> Option<String> {
    match span {
        Some(span) if span.crashes > 0 => {
            Some(format!("it is a suspect of {} crashes", span.crashes))
        }
        _ if has_failed => Some("its attempt had failed".to_owned()),
        Some(span) if span.attempt > 1 => {
            Some(format!("{} attempts had been charged", span.attempt - 1))
        }
        _ => None,
    }
}

/// Checks the jobs of each batch.
pub(super) fn check(findings: &mut Findings) {
    let members = std::mem::take(&mut findings.batches).into_iter();
    let batches = grouped(members.map(|one| ((one.process.clone(), one.batch.number), one)));
    for members in batches.values() {
        check_members(members, findings);
        for member in members {
            check_verdict(member, members, findings);
        }
    }
}

/// Checks that a batch has no job twice, no job of another queue, and not more jobs than it may.
fn check_members(members: &[Member], findings: &mut Findings) {
    let first = &members[0];
    let mut jobs = HashSet::new();
    for member in members {
        let what = if !jobs.insert(member.job) {
            "it was in its batch twice".to_owned()
        } else if member.queue != first.queue {
            format!("its batch had a job of the queue {}", first.queue)
        } else if jobs.len() > member.batch.jobs || jobs.len() > JOBS {
            format!(
                "it was job {} of a batch of {}",
                jobs.len(),
                member.batch.jobs.min(JOBS)
            )
        } else {
            continue;
        };
        findings.add(Rule::Batch, member.job, member.begin, what);
    }
}

/// Checks that the job of a batch left its lease as its own handler's result demands.
fn check_verdict(member: &Member, members: &[Member], findings: &mut Findings) {
    let Some(end) = &member.end else { return };
    let is_charged = match end {
        LeaseEnd::Charged { .. } => true,
        // An operator cancelled it meanwhile.
        LeaseEnd::Dead { cause, .. } if &**cause == "manual" => return,
        LeaseEnd::Dead { .. } => true,
        LeaseEnd::Done => false,
        _ => return,
    };
    let Some(result) = member.result.filter(|_| members.len() > 1) else {
        return;
    };
    if is_charged != [Phase::Retry, Phase::Reject].contains(&result) {
        let mut others = members.iter().filter(|other| other.job != member.job);
        let other = others.find(|other| other.result.is_some_and(|other| other != result));
        let other = other.map_or_else(String::new, |other| {
            format!(" and that of its neighbour {} another result", other.job)
        });
        let text = format!("its handler returned {result:?}{other}, but it ended as {end:?}");
        findings.add(Rule::Batch, member.job, member.begin, text);
    }
}
