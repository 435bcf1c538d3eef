//! Checks the runs of the handlers of a group under valid leases: how many at a time, and in which order.
//!
//! The trace shows which jobs have a lease. Only the handlers show that a follower runs after the job before it.

use redrive::GroupPolicy;

use crate::checker::{Findings, Leased, Rule, Run, grouped};
use crate::history::Phase;
use crate::role::groups::policy_of;

impl Leased<'_> {
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
        let runs = jobs.into_iter().flat_map(|job| run.leases_of(job));
        let mut runs: Vec<Leased<'_>> = runs.collect();
        runs.sort_by_key(|run| run.span.from);
        for (at, run) in runs.iter().enumerate() {
            let Some(begin) = run.begin() else {
                continue;
            };
            // A later lease than these cannot cover the begin.
            let claimed =
                &runs[..at + runs[at..].partition_point(|other| other.span.from <= begin)];
            let others = claimed.iter().filter(|other| other.job.job != run.job.job);
            let broken = match limit {
                None => check_order(run, begin, others),
                Some(limit) => check_limit(begin, limit, others),
            };
            if let Some((rule, what)) = broken {
                let text = format!("it began in the group {group}, {what}");
                findings.add(rule, run.job.job, begin, text);
            }
        }
    }
}

/// A job that was leased with earlier ones of its group starts after they succeeded.
fn check_order<'a>(
    run: &Leased<'_>,
    begin: i64,
    others: impl Iterator<Item = &'a Leased<'a>>,
) -> Option<(Rule, String)> {
    let mut others = others.filter(|other| other.is_leased(begin));
    let other = others.find(|other| {
        let is_earlier = other.job.job < run.job.job;
        other.runs(begin) || is_earlier && other.end(begin) != Some(Phase::Done)
    })?;
    let text = format!(
        "but job {} had a lease and had not succeeded",
        other.job.job
    );
    Some((Rule::GroupOrder, text))
}

fn check_limit<'a>(
    begin: i64,
    limit: usize,
    others: impl Iterator<Item = &'a Leased<'a>>,
) -> Option<(Rule, String)> {
    let running = others.filter(|other| other.runs(begin)).count();
    (running >= limit).then(|| (Rule::GroupLimit, format!("of which {running} jobs ran")))
}
