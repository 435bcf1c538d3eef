//! Causes: why an attempt failed, as it is counted.

use crate::failure::Wish;
use crate::judge::Outcome;

/// Why an attempt failed. A worker that was lost is a cause as well; whoever reaps its lease
/// counts it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    Error,
    Rejected,
    Panic,
    Timeout,
    Undecodable,
    Unhandled,
    Outage,
}

impl Cause {
    /// The word for it in the label `cause`.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Cause::Error => "error",
            Cause::Rejected => "rejected",
            Cause::Panic => "panic",
            Cause::Timeout => "timeout",
            Cause::Undecodable => "undecodable",
            Cause::Unhandled => "unhandled",
            Cause::Outage => "outage",
        }
    }

    /// Why an attempt with this outcome failed. `None`: it did not, it was done or put off.
    pub(crate) fn of(outcome: &Outcome) -> Option<Cause> {
        Some(match outcome {
            Outcome::Done => return None,
            Outcome::Failed(failure) => match failure.wish {
                Wish::Retry | Wish::RetryAfter(_) => Cause::Error,
                Wish::Reject => Cause::Rejected,
                Wish::Outage => Cause::Outage,
                Wish::Snooze(_) => return None,
            },
            Outcome::Panicked(_) => Cause::Panic,
            Outcome::Undecodable(_) => Cause::Undecodable,
            Outcome::Unhandled(_) => Cause::Unhandled,
            Outcome::TimedOut(_) => Cause::Timeout,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::failure::{Failure, Story};
    use crate::metrics::CATALOGUE;

    #[test]
    fn each_outcome_has_its_cause_and_the_catalogue_knows_it() {
        let story = || Story::new("C", "m".to_owned(), None);
        let second = Duration::from_secs(1);
        let failed = CATALOGUE
            .iter()
            .find(|metric| metric.name == "redrive_job_attempts_failed_total")
            .expect("the counter of failed attempts");
        for (outcome, expected) in [
            (Outcome::Done, None),
            (Outcome::Failed(Failure::snooze(second)), None),
            (Outcome::Failed(Failure::retry("m")), Some(Cause::Error)),
            (
                Outcome::Failed(Failure::retry("m").after(second)),
                Some(Cause::Error),
            ),
            (Outcome::Failed(Failure::reject("m")), Some(Cause::Rejected)),
            (Outcome::Failed(Failure::outage("m")), Some(Cause::Outage)),
            (Outcome::Panicked(story()), Some(Cause::Panic)),
            (Outcome::Undecodable(story()), Some(Cause::Undecodable)),
            (Outcome::Unhandled(story()), Some(Cause::Unhandled)),
            (Outcome::TimedOut(second), Some(Cause::Timeout)),
        ] {
            let cause = Cause::of(&outcome);
            assert_eq!(cause, expected, "{outcome:?}");
            if let Some(cause) = cause {
                assert!(failed.labels[2].values.contains(&cause.as_str()));
            }
        }
    }
}
