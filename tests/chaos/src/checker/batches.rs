//! Checks batches: which jobs run together. Rule C21 checks that each is judged by its own verdict.

use std::collections::HashSet;

use crate::checker::attempts::{Attempt, result_of};
use crate::checker::job_history::{JobHistory, LeaseEnd, LeaseSpan};
use crate::checker::{Findings, Rule, Run, Terms, grouped};
use crate::history::Phase;
use crate::role::batch::JOBS;

pub(super) fn check(run: &Run<'_>, findings: &mut Findings) {
    for (job, attempts) in &run.attempts {
        check_job(&run.jobs[job], attempts, run.terms, findings);
    }
    let members = run.attempts().filter_map(|one| {
        let batch = one.begin.batch?;
        Some(((&*one.begin.process, batch.number), (one, batch.jobs)))
    });
    for members in grouped(members).values() {
        check_members(members, run, findings);
    }
}

/// An attempt in a batch, and how many jobs its handler got.
type Member<'a> = (&'a Attempt<'a>, usize);

/// Checks which attempts at a job may run with others.
fn check_job(job: &JobHistory, attempts: &[Attempt<'_>], terms: &Terms, findings: &mut Findings) {
    for (at, attempt) in attempts.iter().enumerate() {
        let Some(batch) = attempt.begin.batch else {
            continue;
        };
        let span = attempt.lease.map(|lease| &job.leases[lease]);
        if batch.jobs == 1 {
            continue;
        }
        let generation = attempt.begin.generation;
        let mut earlier = attempts[..at].iter();
        let previous = earlier.rfind(|earlier| earlier.begin.generation == generation);
        let has_failed = previous.is_some_and(|previous| has_failed(job, previous, terms));
        if let Some(why) = must_run_alone(span, has_failed) {
            let text = format!("{why}, but it ran in a batch of {} jobs", batch.jobs);
            findings.add_lack(Rule::Batch, job.job, attempt.begin.at, text);
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
        LeaseEnd::Refunded => terms.is_calm,
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

/// Checks that a batch has no job twice, no job of another queue, and not more jobs than it may.
fn check_members(members: &[Member<'_>], run: &Run<'_>, findings: &mut Findings) {
    let queue = &run.job_of(members[0].0).queue;
    let mut jobs = HashSet::new();
    for (member, most) in members {
        let most = JOBS.min(*most);
        let what = if !jobs.insert(member.begin.job) {
            "it was in its batch twice".to_owned()
        } else if run.job_of(member).queue != *queue {
            format!("its batch had a job of the queue {queue}")
        } else if jobs.len() > most {
            format!("it was job {} of a batch of {most}", jobs.len())
        } else {
            continue;
        };
        findings.add_lack(Rule::Batch, member.begin.job, member.begin.at, what);
    }
}
