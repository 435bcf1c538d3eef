//! Judge: decides what follows from an attempt. Pure; the whole retry policy is in this file.

use std::time::Duration;

use crate::job::backoff::{Backoff, MAX_BACKOFF};
use crate::job::death_cause::DeathCause;
use crate::job::disposition::Disposition;
use crate::job::error_report::ErrorReport;
use crate::job::job::JobMeta;
use crate::pipeline::breaker::{MAX_PROBE_WAIT, MIN_PROBE_WAIT};
use crate::pipeline::outcome::Outcome;

/// The decision about a job after an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Done,
    Retry(Duration),
    /// Run again after the delay, without counting the attempt.
    Snooze(Duration),
    /// A dependency is down: run again after the delay, without counting the attempt.
    Outage(Duration),
    /// The attempt was interrupted: run again after the delay. The database does not count the attempt, unless the job
    /// has had all its refunds and its handler ran.
    Refund(Duration),
    /// No handler ran: run again after the delay, without counting anything.
    Unrun(Duration),
    Dead(DeathCause),
}

/// The inputs of a verdict besides the outcome.
#[derive(Clone, Copy, Debug)]
pub(crate) struct JudgeContext<'a> {
    pub(crate) meta: &'a JobMeta,
    /// Whether an operator cancelled the job while it ran.
    pub(crate) cancelled: bool,
    pub(crate) backoff: &'a Backoff,
    /// A random number in `0.0..=1.0`, for the jitter.
    pub(crate) random: f64,
}

impl<'a> JudgeContext<'a> {
    /// Returns the inputs for an attempt that was not cancelled.
    pub(crate) fn of(meta: &'a JobMeta, backoff: &'a Backoff, random: f64) -> JudgeContext<'a> {
        JudgeContext {
            meta,
            cancelled: false,
            backoff,
            random,
        }
    }
}

/// How long a job waits after an interrupted attempt.
const INTERRUPTED: Duration = Duration::from_secs(5);

/// After this long of nothing but outages, an outage counts as an ordinary failure.
pub(crate) const MAX_OUTAGE: Duration = Duration::from_hours(24);

/// Decides what follows from the result of an attempt, and returns the error to store.
///
/// Success always counts. A cancelled job that did not succeed dies as `manual`. A failure that no
/// retry can help dies at once; any other failure is retried until the attempts are used up. An
/// outage costs no attempt for a [day](MAX_OUTAGE).
pub(crate) fn judge(
    failed: Option<Outcome>,
    at: &JudgeContext<'_>,
) -> (Verdict, Option<ErrorReport>) {
    let Some(failed) = failed else {
        return (Verdict::Done, None);
    };
    let verdict = verdict_on(&failed, at);
    let report = match (verdict, failed.failure.disposition) {
        (Verdict::Snooze(_), _) => None,
        (_, Disposition::Snooze(_)) => Some(ErrorReport::cancelled()),
        _ => Some(failed.failure.report),
    };
    (verdict, report)
}

fn verdict_on(failed: &Outcome, at: &JudgeContext<'_>) -> Verdict {
    let (disposition, (_, death)) = (failed.failure.disposition, failed.causes());
    let dead = Verdict::Dead(death);
    let (attempt, outage_age) = (at.meta.attempt, at.meta.outage_age);
    if !failed.has_run() && disposition == Disposition::Reject {
        return dead;
    }
    if at.cancelled {
        return Verdict::Dead(DeathCause::Manual);
    }
    let delay = match disposition {
        Disposition::Reject => return dead,
        Disposition::Snooze(delay) => return Verdict::Snooze(delay.min(MAX_BACKOFF)),
        Disposition::Interrupted if !failed.has_run() => return Verdict::Unrun(INTERRUPTED),
        Disposition::Interrupted => return Verdict::Refund(INTERRUPTED),
        Disposition::RetryAfter(delay) => delay.min(MAX_BACKOFF),
        Disposition::Outage if outage_age.is_none_or(|age| age < MAX_OUTAGE) => {
            // The breaker may stay closed because other jobs succeed, so the delay grows with the outage.
            let so_far = outage_age.unwrap_or_default() / 4;
            let wait = so_far.clamp(MIN_PROBE_WAIT, MAX_PROBE_WAIT);
            // Jitter, so that the jobs do not all return at once.
            return Verdict::Outage(wait.mul_f64(0.75 + at.random / 2.0));
        }
        Disposition::Retry | Disposition::Outage => at.backoff.delay(attempt, at.random),
    };
    match attempt >= at.meta.max_attempts {
        true => dead,
        false => Verdict::Retry(delay),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::failure::Failure;
    use crate::pipeline::outcome::FailedBy;

    const SECOND: Duration = Duration::from_secs(1);

    /// A job with three attempts, on this one.
    fn job(attempt: u32) -> JobMeta {
        JobMeta {
            attempt,
            max_attempts: 3,
            ..JobMeta::of_a_sample()
        }
    }

    /// The verdict in words.
    fn told(outcome: impl Into<Option<Outcome>>, at: &JudgeContext<'_>) -> String {
        let (verdict, report) = judge(outcome.into(), at);
        let said = report.map(|report| report.message).unwrap_or_default();
        match verdict {
            Verdict::Done => "done".to_owned(),
            Verdict::Retry(delay) => format!("retry {delay:?}: {said}"),
            Verdict::Snooze(delay) => format!("snooze {delay:?}"),
            Verdict::Outage(delay) => format!("outage {delay:?}: {said}"),
            Verdict::Refund(delay) => format!("refund {delay:?}: {said}"),
            Verdict::Unrun(delay) => format!("unrun {delay:?}: {said}"),
            Verdict::Dead(cause) => format!("dead {cause}"),
        }
    }

    #[test]
    fn each_outcome_has_its_verdict() {
        let failed = |failure: Failure| Outcome::from(failure);
        let report = || ErrorReport::new("C", "m".to_owned(), None);
        let of = |by| Outcome::of(by, report());
        let undecodable = |disposition| {
            let mut outcome = of(FailedBy::Payload);
            outcome.failure.disposition = disposition;
            outcome
        };
        let (read_later, read_never) = (Disposition::Retry, Disposition::Reject);
        let retry = || failed(Failure::retry("m"));
        let interrupted = || failed(Failure::retry("away").interrupted());
        let never = Failure::retry("m").after(Duration::MAX);
        let linear = Backoff::linear(SECOND);
        for (outcome, number, cancelled, expected) in [
            // Failures retry until the attempts are used up.
            (retry(), 2, false, "retry 2s: m"),
            (retry(), 3, false, "dead exhausted"),
            (retry(), 4, false, "dead exhausted"),
            (of(FailedBy::Panic), 3, false, "dead exhausted"),
            (Outcome::timed_out(SECOND), 3, false, "dead timeout"),
            // A permanent failure dies at once.
            (failed(Failure::reject("m")), 1, false, "dead rejected"),
            (undecodable(read_never), 1, false, "dead undecodable"),
            (of(FailedBy::Expiry), 1, false, "dead expired"),
            // Another program may read the payload.
            (undecodable(read_later), 2, false, "retry 2s: m"),
            (undecodable(read_later), 3, false, "dead undecodable"),
            // A cancelled job that fails dies.
            (undecodable(read_later), 1, true, "dead manual"),
            (retry(), 1, true, "dead manual"),
            (failed(Failure::snooze(SECOND)), 1, true, "dead manual"),
            (failed(Failure::outage("down")), 1, true, "dead manual"),
            (of(FailedBy::Panic), 1, true, "dead manual"),
            (Outcome::timed_out(SECOND), 1, true, "dead manual"),
            (interrupted(), 1, true, "dead manual"),
            // The database decides when the job has had its refunds.
            (interrupted(), 1, false, "refund 5s: away"),
            (interrupted(), 3, false, "refund 5s: away"),
            (interrupted(), 4, false, "refund 5s: away"),
            (of(FailedBy::NotBegun), 4, false, "unrun 5s: m"),
            // A handler chooses its delay.
            (failed(Failure::snooze(SECOND)), 3, false, "snooze 1s"),
            (
                failed(Failure::snooze(Duration::MAX)),
                3,
                false,
                "snooze 2592000s",
            ),
            (failed(never), 1, false, "retry 2592000s: m"),
        ] {
            let case = format!("{outcome:?}, attempt {number}, cancelled: {cancelled}");
            let job = job(number);
            let at = JudgeContext {
                cancelled,
                ..JudgeContext::of(&job, &linear, 1.0)
            };
            assert_eq!(told(outcome, &at), expected, "{case}");
            assert_eq!(told(None, &at), "done", "a success always counts");
        }
    }

    #[test]
    fn an_outage_costs_no_attempt_for_a_day() {
        let (day, linear) = (MAX_OUTAGE, Backoff::linear(SECOND));
        let outage = |number, outage_age, random| {
            let job = JobMeta {
                outage_age,
                ..job(number)
            };
            let at = JudgeContext::of(&job, &linear, random);
            told(Outcome::from(Failure::outage("down")), &at)
        };
        for (age, random, expected) in [
            (None, 0.0, "outage 750ms: down"),
            (Some(Duration::ZERO), 0.5, "outage 1s: down"),
            (Some(60 * SECOND), 0.5, "outage 15s: down"),
            (Some(day.saturating_sub(SECOND)), 1.0, "outage 75s: down"),
        ] {
            for number in [1, 3, 4] {
                let told = outage(number, age, random);
                assert_eq!(told, expected, "{age:?} {number}");
            }
        }
        assert_eq!(outage(2, Some(day), 1.0), "retry 2s: down");
        assert_eq!(outage(3, Some(2 * day), 1.0), "dead exhausted");
    }
}
