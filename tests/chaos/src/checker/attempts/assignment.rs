//! Assigns attempts to leases: a lease has at most one attempt at a job.

use super::Attempt;
use crate::checker::job_history::{JobHistory, LeaseEnd, LeaseSpan};
use crate::checker::{Findings, Rule, Terms};
use crate::history::{HandlerEvent, Phase};

fn is_same(one: &HandlerEvent, other: &HandlerEvent) -> bool {
    let numbers = |event: &HandlerEvent| (event.generation, event.attempt, event.call);
    numbers(one) == numbers(other) && one.process == other.process
}

/// Returns the attempts at a job, each with the latest lease that it may have.
pub(super) fn attempts<'a>(job: &JobHistory, events: &'a [HandlerEvent]) -> Vec<Attempt<'a>> {
    let events_at = events.iter().enumerate();
    let begins = events_at.filter(|(_, event)| event.phase == Phase::Begin);
    begins
        .map(|(at, begin)| {
            let later = events[at + 1..].iter();
            let later = later.filter(|event| is_same(event, begin));
            // Unless the next event begins another attempt, it ends this one.
            let end = later.take(1).find(|event| event.phase != Phase::Begin);
            let matches = |span: &LeaseSpan| {
                (span.generation, span.attempt) == (begin.generation, begin.attempt)
                    && *span.process == *begin.process
                    && span.from <= begin.at
            };
            Attempt {
                begin,
                end,
                lease: job.leases.iter().rposition(matches),
            }
        })
        .collect()
}

/// Gives each attempt the lease under which it ran. Returns the attempt of each lease.
pub(super) fn assign(
    job: &JobHistory,
    attempts: &mut [Attempt<'_>],
    terms: &Terms,
    findings: &mut Findings,
) -> Vec<Option<usize>> {
    let mut by_lease: Vec<Option<usize>> = vec![None; job.leases.len()];
    for at in 0..attempts.len() {
        let Some(lease) = attempts[at].lease else {
            continue;
        };
        let Some(earlier) = by_lease[lease].replace(at) else {
            continue;
        };
        let begin = attempts[at].begin.at;
        let twin = lost_twin(job, lease).filter(|twin| by_lease[*twin].is_none());
        if let Some(twin) = twin.filter(|_| !terms.is_calm) {
            by_lease[twin] = Some(earlier);
            attempts[earlier].lease = Some(twin);
        } else {
            by_lease[lease] = Some(earlier);
            attempts[at].lease = None;
            let text = "it ran twice under one lease".to_owned();
            findings.add_lack(Rule::NoOverlap, job.job, begin, text);
        }
    }
    by_lease
}

/// Returns an earlier lease of the same attempt at the same process, which was lost. An attempt under it may begin
/// after the process got the job again.
fn lost_twin(job: &JobHistory, lease: usize) -> Option<usize> {
    let span = &job.leases[lease];
    job.leases[..lease].iter().rposition(|earlier| {
        earlier.end == LeaseEnd::Reaped
            && (earlier.generation, earlier.attempt) == (span.generation, span.attempt)
            && earlier.process == span.process
    })
}
