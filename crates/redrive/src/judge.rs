//! Judge: from what an attempt did to what follows. Pure: the whole retry policy on one page.

use std::time::Duration;

use crate::backoff::{Backoff, LONGEST_BACKOFF};
use crate::breaker::LONGEST_WAIT;
use crate::failure::{Failure, Story, Wish};
use crate::reason::Reason;

/// What an attempt did.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// The handler succeeded.
    Done,
    /// The handler answered with a failure.
    Failed(Failure),
    /// The handler panicked.
    Panicked(Story),
    /// The payload is not what the handler takes.
    Undecodable(Story),
    /// The worker has no handler for the kind.
    Unhandled(Story),
    /// The handler overran its deadline. It may still run; its result will be refused.
    TimedOut(Duration),
}

impl Outcome {
    /// What was down, if the handler named it, and the message, when something that the job needs
    /// was down.
    pub(crate) fn outage(&self) -> Option<(Option<&str>, &str)> {
        match self {
            Outcome::Failed(failure) if failure.wish == Wish::Outage => {
                Some((failure.dependency.as_deref(), &failure.story.message))
            }
            Outcome::Done
            | Outcome::Failed(_)
            | Outcome::Panicked(_)
            | Outcome::Undecodable(_)
            | Outcome::Unhandled(_)
            | Outcome::TimedOut(_) => None,
        }
    }
}

/// What follows from an outcome.
#[derive(Debug, PartialEq)]
pub(crate) enum Verdict {
    /// The job is finished.
    Done,
    /// Another attempt after a while.
    Retry { delay: Duration, story: Story },
    /// Run again after a while; this attempt does not count.
    Snooze { delay: Duration },
    /// Something it needs is down: run again after a while; this attempt does not count.
    Outage { delay: Duration, story: Story },
    /// No further attempt: a dead letter.
    Dead { reason: Reason, story: Story },
}

impl Verdict {
    /// The same verdict with a story that the program's hook has cleaned.
    pub(crate) fn redacted(self, redact: &(dyn Fn(&str) -> String + Send + Sync)) -> Verdict {
        match self {
            Verdict::Done => Verdict::Done,
            Verdict::Snooze { delay } => Verdict::Snooze { delay },
            Verdict::Retry { delay, story } => Verdict::Retry {
                delay,
                story: story.redacted(redact),
            },
            Verdict::Outage { delay, story } => Verdict::Outage {
                delay,
                story: story.redacted(redact),
            },
            Verdict::Dead { reason, story } => Verdict::Dead {
                reason,
                story: story.redacted(redact),
            },
        }
    }
}

/// What the verdict depends on besides the outcome.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Circumstances<'a> {
    /// This attempt, from 1.
    pub(crate) attempt: u32,
    /// The attempts the job has.
    pub(crate) max_attempts: u32,
    /// Whether an operator cancelled the job while it ran.
    pub(crate) cancelled: bool,
    /// The backoff of its kind.
    pub(crate) backoff: &'a Backoff,
    /// For how long the job has met nothing but outages. `None`: its last attempt met none.
    pub(crate) outage_age: Option<Duration>,
    /// How long a job waits in an outage at least: as long as the breaker until it probes.
    pub(crate) park: Duration,
    /// Chance, in `0.0..=1.0`, for the jitter.
    pub(crate) random: f64,
}

/// After this long of nothing but outages an outage is a failure like any other.
pub(crate) const LONGEST_OUTAGE: Duration = Duration::from_hours(24);

/// Decides what follows from what an attempt did.
///
/// Success always counts. A cancelled job that did not succeed dies as `manual`. What no retry
/// can help dies at once; anything else is retried until its attempts are used up, and dies
/// then with the reason that used up the last one. An outage of what the job needs is not the
/// job's fault, for a [day](LONGEST_OUTAGE).
pub(crate) fn judge(outcome: Outcome, at: &Circumstances<'_>) -> Verdict {
    let (wish, reason_at_the_end, story) = match outcome {
        Outcome::Done => return Verdict::Done,
        Outcome::Failed(Failure { wish, story, .. }) => (wish, Reason::Exhausted, story),
        Outcome::Panicked(story) => (Wish::Retry, Reason::Exhausted, story),
        Outcome::TimedOut(deadline) => {
            let message = format!("overran its deadline of {deadline:?}");
            (
                Wish::Retry,
                Reason::Timeout,
                Story::new("Timeout", message, None),
            )
        }
        Outcome::Undecodable(story) => {
            return Verdict::Dead {
                reason: Reason::Undecodable,
                story,
            };
        }
        Outcome::Unhandled(story) => {
            return Verdict::Dead {
                reason: Reason::Unhandled,
                story,
            };
        }
    };
    if at.cancelled {
        let story = match wish {
            Wish::Snooze(_) => Story::cancelled(),
            Wish::Retry | Wish::RetryAfter(_) | Wish::Reject | Wish::Outage => story,
        };
        return Verdict::Dead {
            reason: Reason::Manual,
            story,
        };
    }
    let delay = match wish {
        Wish::Reject => {
            return Verdict::Dead {
                reason: Reason::Rejected,
                story,
            };
        }
        Wish::Snooze(delay) => {
            return Verdict::Snooze {
                delay: delay.min(LONGEST_BACKOFF),
            };
        }
        Wish::RetryAfter(delay) => delay.min(LONGEST_BACKOFF),
        Wish::Outage if at.outage_age.is_none_or(|age| age < LONGEST_OUTAGE) => {
            // With a breaker that stays closed, because other jobs do well, it waits ever longer.
            let so_far = at.outage_age.unwrap_or_default() / 4;
            // What the database says of a breaker is bounded here: a thread must not end by it.
            let wait = at.park.min(LONGEST_BACKOFF).max(so_far.min(LONGEST_WAIT));
            return Verdict::Outage {
                // Spread, so that they do not all come back at once.
                delay: wait.mul_f64(0.75 + at.random / 2.0),
                story,
            };
        }
        Wish::Retry | Wish::Outage => at.backoff.delay(at.attempt, at.random),
    };
    if at.attempt >= at.max_attempts {
        return Verdict::Dead {
            reason: reason_at_the_end,
            story,
        };
    }
    Verdict::Retry { delay, story }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn verdict(outcome: Outcome, attempt: u32, cancelled: bool) -> Verdict {
        let backoff = Backoff::linear(SECOND);
        judge(
            outcome,
            &Circumstances {
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
            Outcome::Failed(Failure::outage("down")),
            &Circumstances {
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

    fn story() -> Story {
        Story::new("C", "m".to_owned(), None)
    }

    fn reason(verdict: &Verdict) -> Option<Reason> {
        match verdict {
            Verdict::Dead { reason, .. } => Some(*reason),
            Verdict::Done
            | Verdict::Retry { .. }
            | Verdict::Snooze { .. }
            | Verdict::Outage { .. } => None,
        }
    }

    #[test]
    fn success_always_counts() {
        assert_eq!(verdict(Outcome::Done, 3, true), Verdict::Done);
    }

    #[test]
    fn failures_retry_until_the_attempts_are_used_up() {
        let failed = || Outcome::Failed(Failure::retry("m"));
        let Verdict::Retry { delay, .. } = verdict(failed(), 2, false) else {
            panic!("no retry")
        };
        assert_eq!(delay, 2 * SECOND);
        assert_eq!(
            reason(&verdict(failed(), 3, false)),
            Some(Reason::Exhausted)
        );
        assert_eq!(
            reason(&verdict(failed(), 4, false)),
            Some(Reason::Exhausted)
        );
        assert_eq!(
            reason(&verdict(Outcome::Panicked(story()), 3, false)),
            Some(Reason::Exhausted)
        );
        assert_eq!(
            reason(&verdict(Outcome::TimedOut(SECOND), 3, false)),
            Some(Reason::Timeout)
        );
    }

    #[test]
    fn what_no_retry_can_help_dies_at_once() {
        for (outcome, expected) in [
            (Outcome::Failed(Failure::reject("m")), Reason::Rejected),
            (Outcome::Undecodable(story()), Reason::Undecodable),
            (Outcome::Unhandled(story()), Reason::Unhandled),
        ] {
            assert_eq!(reason(&verdict(outcome, 1, false)), Some(expected));
        }
    }

    #[test]
    fn a_cancelled_job_that_fails_dies() {
        for outcome in [
            Outcome::Failed(Failure::retry("m")),
            Outcome::Failed(Failure::snooze(SECOND)),
            Outcome::Failed(Failure::outage("down")),
            Outcome::Panicked(story()),
            Outcome::TimedOut(SECOND),
        ] {
            assert_eq!(reason(&verdict(outcome, 1, true)), Some(Reason::Manual));
        }
    }

    #[test]
    fn an_outage_is_not_the_jobs_fault_for_a_day() {
        let day = LONGEST_OUTAGE;
        for (age, random, expected) in [
            (None, 0.0, 6 * SECOND),
            (Some(Duration::ZERO), 0.5, 8 * SECOND),
            (Some(60 * SECOND), 0.5, 15 * SECOND),
            (Some(day.saturating_sub(SECOND)), 1.0, 75 * SECOND),
        ] {
            for attempt in [1, 3, 4] {
                let Verdict::Outage { delay, story } = outage(age, attempt, random) else {
                    panic!("not parked after {age:?}, on attempt {attempt}")
                };
                assert_eq!((delay, &*story.message), (expected, "down"));
            }
        }
        let Verdict::Retry { delay, .. } = outage(Some(day), 2, 1.0) else {
            panic!("still parked after a day")
        };
        assert_eq!(delay, 2 * SECOND, "the backoff of its kind");
        assert_eq!(
            reason(&outage(Some(2 * day), 3, 1.0)),
            Some(Reason::Exhausted)
        );
    }

    #[test]
    fn a_handler_chooses_its_delay_within_the_limit() {
        let after = Outcome::Failed(Failure::retry("m").after(Duration::MAX));
        let Verdict::Retry { delay, .. } = verdict(after, 1, false) else {
            panic!("no retry")
        };
        assert_eq!(delay, LONGEST_BACKOFF);
        let snoozed = verdict(Outcome::Failed(Failure::snooze(SECOND)), 3, false);
        assert_eq!(snoozed, Verdict::Snooze { delay: SECOND });
    }
}
