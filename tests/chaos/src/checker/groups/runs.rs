//! Checks the runs of the handlers of a group under valid leases: how many at a time, and in which order.
//!
//! The trace shows which jobs have a lease. Only the handlers show that a follower runs after the job before it.

use std::sync::Arc;

use redrive::GroupPolicy;

use crate::checker::attempts::Attempt;
use crate::checker::job_history::{JobHistory, LeaseSpan};
use crate::checker::{Findings, Rule, grouped};
use crate::history::Phase;
use crate::role::groups::policy_of;

/// A job of a group under one lease.
#[derive(Clone, Debug)]
pub(crate) struct GroupRun {
    queue: Arc<str>,
    group: Arc<str>,
    job: i64,
    /// When it was leased.
    from: i64,
    to: i64,
    /// When its handler began. `None`: it did not.
    begin: Option<i64>,
    /// When and how its handler ended. `None`: its process was killed, or it still runs.
    end: Option<(i64, Phase)>,
}

impl GroupRun {
    /// Whether it had its lease at this time.
    fn is_leased(&self, at: i64) -> bool {
        self.from <= at && at < self.to
    }

    fn runs(&self, at: i64) -> bool {
        self.is_leased(at)
            && self.begin.is_some_and(|begin| begin <= at)
            && self.end.is_none_or(|(end, _)| at < end)
    }

    fn has_succeeded(&self, at: i64) -> bool {
        self.end
            .is_some_and(|(end, phase)| end <= at && phase == Phase::Done)
    }
}

/// Collects the run of a job of a group under a lease.
pub(crate) fn collect(
    job: &JobHistory,
    span: &LeaseSpan,
    attempt: Option<&Attempt<'_>>,
    findings: &mut Findings,
) {
    let (Some(group), Some(_)) = (&job.group, policy_of(&job.queue)) else {
        return;
    };
    findings.group_runs.push(GroupRun {
        queue: Arc::clone(&job.queue),
        group: Arc::clone(group),
        job: job.job,
        from: span.from,
        to: span.to,
        begin: attempt.map(|attempt| attempt.begin.at),
        end: attempt
            .and_then(|attempt| attempt.end)
            .map(|end| (end.at, end.phase)),
    });
}

pub(crate) fn check(findings: &mut Findings) {
    let runs = std::mem::take(&mut findings.group_runs).into_iter();
    let groups = runs.map(|run| ((Arc::clone(&run.queue), Arc::clone(&run.group)), run));
    for ((queue, _), mut runs) in grouped(groups) {
        runs.sort_by_key(|run| run.from);
        let limit = match policy_of(&queue) {
            Some(GroupPolicy::Ordered(_)) => None,
            Some(GroupPolicy::Limit(limit)) => Some(limit as usize),
            _ => continue,
        };
        for (at, run) in runs.iter().enumerate() {
            let Some(begin) = run.begin.filter(|begin| run.is_leased(*begin)) else {
                continue;
            };
            // A later lease than these cannot cover the begin.
            let claimed = &runs[..at + runs[at..].partition_point(|other| other.from <= begin)];
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
    run: &GroupRun,
    begin: i64,
    others: impl Iterator<Item = &'a GroupRun>,
    findings: &mut Findings,
) {
    for other in others.filter(|other| other.is_leased(begin)) {
        if other.runs(begin) || other.job < run.job && !other.has_succeeded(begin) {
            let text = format!(
                "it began in the group {} while job {} had a lease and had not succeeded",
                run.group, other.job
            );
            findings.add(Rule::GroupOrder, run.job, begin, text);
        }
    }
}

fn check_limit<'a>(
    run: &GroupRun,
    begin: i64,
    limit: usize,
    others: impl Iterator<Item = &'a GroupRun>,
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
