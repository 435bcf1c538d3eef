//! Judge: decides what follows from an attempt. Pure; the whole retry policy is in this file.

use std::time::Duration;

use crate::job::backoff::{Backoff, MAX_BACKOFF};
use crate::job::death_cause::DeathCause;
use crate::job::disposition::Disposition;
use crate::job::error_report::ErrorReport;
use crate::pipeline::breaker::MAX_PROBE_WAIT;
use crate::pipeline::outcome::FailedAttempt;

/// The decision about a job after an attempt.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Verdict {
    /// The job is finished.
    Done,
    /// Retry after the delay.
    Retry {
        delay: Duration,
        report: ErrorReport,
    },
    /// Run again after the delay, without counting the attempt.
    Snooze { delay: Duration },
    /// A dependency is down: run again after the delay, without counting the attempt.
    Outage {
        delay: Duration,
        report: ErrorReport,
    },
    /// The attempt was interrupted: run again after the delay. The database does not count the attempt, unless the job
    /// has had all its refunds and its handler ran.
    Refund {
        delay: Duration,
        report: ErrorReport,
    },
    /// Dead-letter the job.
    Dead {
        cause: DeathCause,
        report: ErrorReport,
    },
}

/// The inputs of a verdict besides the outcome.
#[derive(Clone, Copy, Debug)]
pub(crate) struct JudgeContext<'a> {
    /// The number of this attempt, from 1.
    pub(crate) attempt: u32,
    /// The number of attempts of the job.
    pub(crate) max_attempts: u32,
    /// Whether an operator cancelled the job while it ran.
    pub(crate) cancelled: bool,
    /// The backoff of the kind.
    pub(crate) backoff: &'a Backoff,
    /// How long the job has met nothing but outages. `None`: its last attempt met none.
    pub(crate) outage_age: Option<Duration>,
    /// The minimum delay after an outage: the breaker's wait until its probe.
    pub(crate) park: Duration,
    /// A random number in `0.0..=1.0`, for the jitter.
    pub(crate) random: f64,
}

/// How long a job waits after an interrupted attempt.
const INTERRUPTED: Duration = Duration::from_secs(5);

/// After this long of nothing but outages, an outage counts as an ordinary failure.
pub(crate) const MAX_OUTAGE: Duration = Duration::from_hours(24);

/// Decides what follows from the result of an attempt.
///
/// Success always counts. A cancelled job that did not succeed dies as `manual`. A failure that no
/// retry can help dies at once; any other failure is retried until the attempts are used up. An
/// outage costs no attempt for a [day](MAX_OUTAGE).
pub(crate) fn judge(failed: Option<FailedAttempt>, at: &JudgeContext<'_>) -> Verdict {
    let Some(failed) = failed else {
        return Verdict::Done;
    };
    let FailedAttempt { death, report, .. } = failed;
    let dead = |cause, report| Verdict::Dead { cause, report };
    let had_no_handler = matches!(
        death,
        DeathCause::Undecodable | DeathCause::Unhandled | DeathCause::Expired
    );
    if had_no_handler && failed.disposition == Disposition::Reject {
        return dead(death, report);
    }
    if at.cancelled {
        let report = match failed.disposition {
            Disposition::Snooze(_) => ErrorReport::cancelled(),
            Disposition::Retry
            | Disposition::RetryAfter(_)
            | Disposition::Reject
            | Disposition::Interrupted
            | Disposition::Outage => report,
        };
        return dead(DeathCause::Manual, report);
    }
    let delay = match failed.disposition {
        Disposition::Reject => return dead(death, report),
        Disposition::Snooze(delay) => {
            return Verdict::Snooze {
                delay: delay.min(MAX_BACKOFF),
            };
        }
        Disposition::Interrupted => {
            return Verdict::Refund {
                delay: INTERRUPTED,
                report,
            };
        }
        Disposition::RetryAfter(delay) => delay.min(MAX_BACKOFF),
        Disposition::Outage if at.outage_age.is_none_or(|age| age < MAX_OUTAGE) => {
            // The breaker may stay closed because other jobs succeed. Then the delay grows with the
            // outage.
            let so_far = at.outage_age.unwrap_or_default() / 4;
            // Bounds the wait read from the database, so that arithmetic cannot panic.
            let wait = at.park.min(MAX_BACKOFF).max(so_far.min(MAX_PROBE_WAIT));
            return Verdict::Outage {
                // Jitter, so that the jobs do not all return at once.
                delay: wait.mul_f64(0.75 + at.random / 2.0),
                report,
            };
        }
        Disposition::Retry | Disposition::Outage => at.backoff.delay(at.attempt, at.random),
    };
    if at.attempt >= at.max_attempts {
        return dead(death, report);
    }
    Verdict::Retry { delay, report }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::failure::Failure;
    use crate::pipeline::outcome::Outcome;

    const SECOND: Duration = Duration::from_secs(1);

    fn verdict(outcome: impl Into<Option<Outcome>>, attempt: u32, cancelled: bool) -> Verdict {
        let backoff = Backoff::linear(SECOND);
        judge(
            outcome.into().map(Outcome::classify),
            &JudgeContext {
                attempt,
                max_attempts: 3,
                cancelled,
                backoff: &backoff,
                outage_age: None,
                park: 8 * SECOND,
                random: 1.0,
            },
        )
    }

    /// The verdict on an outage in the last attempt, after this long of outages.
    fn outage(age: Option<Duration>, attempt: u32, random: f64) -> Verdict {
        judge(
            Some(Outcome::Failed(Failure::outage("down")).classify()),
            &JudgeContext {
                attempt,
                max_attempts: 3,
                cancelled: false,
                backoff: &Backoff::linear(SECOND),
                outage_age: age,
                park: 8 * SECOND,
                random,
            },
        )
    }

    fn report() -> ErrorReport {
        ErrorReport::new("C", "m".to_owned(), None)
    }

    fn undecodable(may_retry: bool) -> Outcome {
        let report = report();
        Outcome::Undecodable { report, may_retry }
    }

    fn cause(verdict: &Verdict) -> Option<DeathCause> {
        match verdict {
            Verdict::Dead { cause, .. } => Some(*cause),
            Verdict::Done
            | Verdict::Retry { .. }
            | Verdict::Snooze { .. }
            | Verdict::Refund { .. }
            | Verdict::Outage { .. } => None,
        }
    }

    #[test]
    fn a_success_always_counts() {
        assert_eq!(verdict(None, 3, true), Verdict::Done);
    }

    #[test]
    fn failures_retry_until_the_attempts_are_used_up() {
        let failed = || Outcome::Failed(Failure::retry("m"));
        let Verdict::Retry { delay, .. } = verdict(failed(), 2, false) else {
            panic!("no retry")
        };
        assert_eq!(delay, 2 * SECOND);
        assert_eq!(
            cause(&verdict(failed(), 3, false)),
            Some(DeathCause::Exhausted)
        );
        assert_eq!(
            cause(&verdict(failed(), 4, false)),
            Some(DeathCause::Exhausted)
        );
        assert_eq!(
            cause(&verdict(Outcome::Panicked(report()), 3, false)),
            Some(DeathCause::Exhausted)
        );
        assert_eq!(
            cause(&verdict(Outcome::TimedOut(SECOND), 3, false)),
            Some(DeathCause::Timeout)
        );
    }

    #[test]
    fn a_permanent_failure_dies_at_once() {
        for (outcome, expected) in [
            (Outcome::Failed(Failure::reject("m")), DeathCause::Rejected),
            (undecodable(false), DeathCause::Undecodable),
            (Outcome::Unhandled(report()), DeathCause::Unhandled),
            (Outcome::Expired(report()), DeathCause::Expired),
        ] {
            assert_eq!(cause(&verdict(outcome, 1, false)), Some(expected));
        }
    }

    #[test]
    fn a_payload_that_another_program_may_read_has_its_attempts() {
        let retried = verdict(undecodable(true), 2, false);
        assert!(matches!(retried, Verdict::Retry { .. }), "{retried:?}");
        let last = verdict(undecodable(true), 3, false);
        assert_eq!(cause(&last), Some(DeathCause::Undecodable));
    }

    #[test]
    fn a_cancelled_job_that_fails_dies() {
        for outcome in [
            undecodable(true),
            Outcome::Failed(Failure::retry("m")),
            Outcome::Failed(Failure::snooze(SECOND)),
            Outcome::Failed(Failure::outage("down")),
            Outcome::Panicked(report()),
            Outcome::TimedOut(SECOND),
        ] {
            assert_eq!(cause(&verdict(outcome, 1, true)), Some(DeathCause::Manual));
        }
    }

    #[test]
    fn an_outage_costs_no_attempt_for_a_day() {
        let day = MAX_OUTAGE;
        for (age, random, expected) in [
            (None, 0.0, 6 * SECOND),
            (Some(Duration::ZERO), 0.5, 8 * SECOND),
            (Some(60 * SECOND), 0.5, 15 * SECOND),
            (Some(day.saturating_sub(SECOND)), 1.0, 75 * SECOND),
        ] {
            for attempt in [1, 3, 4] {
                let Verdict::Outage { delay, report } = outage(age, attempt, random) else {
                    panic!("not parked after {age:?}, on attempt {attempt}")
                };
                assert_eq!((delay, &*report.message), (expected, "down"));
            }
        }
        let Verdict::Retry { delay, .. } = outage(Some(day), 2, 1.0) else {
            panic!("still parked after a day")
        };
        assert_eq!(delay, 2 * SECOND, "the backoff of its kind");
        assert_eq!(
            cause(&outage(Some(2 * day), 3, 1.0)),
            Some(DeathCause::Exhausted)
        );
    }

    #[test]
    fn an_interrupted_attempt_is_refunded_unless_the_job_is_cancelled() {
        let interrupted = || {
            let mut failure = Failure::retry("away");
            failure.disposition = Disposition::Interrupted;
            Outcome::Failed(failure)
        };
        // The database decides when the job has had its refunds.
        for attempt in [1, 3, 4] {
            let Verdict::Refund { delay, report } = verdict(interrupted(), attempt, false) else {
                panic!("charged on attempt {attempt}")
            };
            assert_eq!((delay, &*report.message), (INTERRUPTED, "away"));
        }
        let cancelled = verdict(interrupted(), 1, true);
        assert_eq!(cause(&cancelled), Some(DeathCause::Manual));
    }

    #[test]
    fn a_handler_chooses_its_delay_within_the_limit() {
        let after = Outcome::Failed(Failure::retry("m").after(Duration::MAX));
        let Verdict::Retry { delay, .. } = verdict(after, 1, false) else {
            panic!("no retry")
        };
        assert_eq!(delay, MAX_BACKOFF);
        let snoozed = verdict(Outcome::Failed(Failure::snooze(SECOND)), 3, false);
        assert_eq!(snoozed, Verdict::Snooze { delay: SECOND });
    }
}
