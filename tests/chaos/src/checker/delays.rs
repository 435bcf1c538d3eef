//! Checks that a job waits for as long as its handler or the backoff of its worker says.

use crate::checker::job_history::{JobHistory, LeaseEnd, LeaseSpan};
use crate::checker::{Findings, Rule};
use crate::history::Phase;
use crate::role::{BACKOFF_STEP, SNOOZE};

pub(super) fn check(
    job: &JobHistory,
    span: &LeaseSpan,
    result: Option<Phase>,
    findings: &mut Findings,
) {
    let expected = match (&span.end, result) {
        (LeaseEnd::Charged { .. }, Some(Phase::Retry)) => {
            BACKOFF_STEP * span.attempt.unsigned_abs()
        }
        (LeaseEnd::Refunded { .. }, Some(Phase::Snooze)) => SNOOZE,
        _ => return,
    };
    // A release of a worker whose result a fault lost returns the job at once.
    let Some((least, most)) = span.waits else {
        if matches!(span.end, LeaseEnd::Charged { .. }) {
            let text = format!("it was retried at once instead of after {expected:?}");
            findings.add(Rule::Delay, Some(job.job), span.to, text);
        }
        return;
    };
    let expected = i64::try_from(expected.as_micros()).unwrap_or(i64::MAX);
    if !(least..=most).contains(&expected) {
        let text = format!("it waits for {least} to {most} µs instead of {expected} µs");
        findings.add(Rule::Delay, Some(job.job), span.to, text);
    }
}
