//! Checks the runs of the handlers of a group under valid leases: how many at a time, and in which order.
//!
//! The trace shows which jobs have a lease. Only the handlers show that a follower runs after the job before it.

use redrive::GroupPolicy;

use crate::checker::attempts::Attempt;
use crate::checker::job_history::{JobHistory, LeaseSpan};
use crate::checker::{Findings, Rule, Run, grouped};
use crate::history::Phase;
use crate::role::groups::policy_of;

/// A job of a group under one lease, and the attempt at it.
struct GroupRun<'a> {
    group: &'a str,
    job: i64,
    span: &'a LeaseSpan,
    attempt: Option<&'a Attempt<'a>>,
}

impl GroupRun<'_> {
    /// Whether it had its lease at this time.
    fn is_leased(&self, at: i64) -> bool {
        (self.span.from..self.span.to).contains(&at)
    }

    /// When its handler began under the lease.
    fn begin(&self) -> Option<i64> {
        let begin = self.attempt?.begin.at;
        Some(begin).filter(|begin| self.is_leased(*begin))
    }

    /// How its handler had ended at this time.
    fn end(&self, at: i64) -> Option<Phase> {
        let end = self.attempt?.end?;
        (end.at <= at).then_some(end.phase)
    }

    fn runs(&self, at: i64) -> bool {
        let has_begun = self.attempt.is_some_and(|attempt| attempt.begin.at <= at);
        self.is_leased(at) && has_begun && self.end(at).is_none()
    }
}

/// Returns the runs of a job of a group.
fn runs_of<'a>(run: &'a Run<'_>, group: &'a str, job: &'a JobHistory) -> Vec<GroupRun<'a>> {
    let attempts = &run.attempts[&job.job];
    let spans = job.leases.iter().enumerate().map(|(lease, span)| GroupRun {
        group,
        job: job.job,
        span,
        attempt: attempts.iter().rfind(|one| one.lease == Some(lease)),
    });
    spans.collect()
}

pub(super) fn check(run: &Run<'_>, findings: &mut Findings) {
    let jobs = run
        .jobs()
        .filter_map(|job| Some(((&*job.queue, job.group.as_deref()?), job)));
    for ((queue, group), jobs) in grouped(jobs) {
        let limit = match policy_of(queue) {
            Some(GroupPolicy::Ordered(_)) => None,
            Some(GroupPolicy::Limit(limit)) => Some(limit as usize),
            _ => continue,
        };
        let runs = jobs.into_iter().flat_map(|job| runs_of(run, group, job));
        let mut runs: Vec<GroupRun<'_>> = runs.collect();
        runs.sort_by_key(|run| run.span.from);
        for (at, run) in runs.iter().enumerate() {
            let Some(begin) = run.begin() else {
                continue;
            };
            // A later lease than these cannot cover the begin.
            let claimed =
                &runs[..at + runs[at..].partition_point(|other| other.span.from <= begin)];
            let others = claimed.iter().filter(|other| other.job != run.job);
            match limit {
                None => check_order(run, begin, others, findings),
                Some(limit) => check_limit(run, begin, limit, others, findings),
            }
        }
    }
}

/// A job that was leased with earlier ones of its group starts after they succeeded.
fn check_order<'a>(
    run: &GroupRun<'_>,
    begin: i64,
    others: impl Iterator<Item = &'a GroupRun<'a>>,
    findings: &mut Findings,
) {
    for other in others.filter(|other| other.is_leased(begin)) {
        if other.runs(begin) || other.job < run.job && other.end(begin) != Some(Phase::Done) {
            let text = format!(
                "it began in the group {} while job {} had a lease and had not succeeded",
                run.group, other.job
            );
            findings.add(Rule::GroupOrder, run.job, begin, text);
        }
    }
}

fn check_limit<'a>(
    run: &GroupRun<'_>,
    begin: i64,
    limit: usize,
    others: impl Iterator<Item = &'a GroupRun<'a>>,
    findings: &mut Findings,
) {
    let running = others.filter(|other| other.runs(begin)).count();
    if running >= limit {
        let text = format!(
            "it began in the group {}, of which {running} jobs ran",
            run.group
        );
        findings.add(Rule::GroupLimit, run.job, begin, text);
    }
}
