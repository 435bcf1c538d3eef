//! The rate limits of the worker's queue. Pure.

use std::sync::Arc;
use std::time::Duration;

use crate::pipeline::gates::LimitStatus;
use crate::pipeline::tokens::{TokenScope, WHOLE_QUEUE};

/// The rate limits of the queue, by kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct LocalLimits(Arc<[LocalLimit]>);

/// A rate limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LocalLimit {
    /// The kind. `None`: the whole queue.
    pub(crate) kind: Option<String>,
    /// How soon a job must start once it has a token.
    hold: Duration,
}

impl LocalLimits {
    /// Returns the limits of the queue with the breaker `name`, among those of all queues.
    pub(super) fn of(name: &str, limits: Vec<LimitStatus>) -> LocalLimits {
        let ours = limits.into_iter().filter(|limit| limit.name == name);
        let local = |limit: LimitStatus| LocalLimit {
            kind: (limit.kind != WHOLE_QUEUE).then_some(limit.kind),
            hold: limit.hold,
        };
        LocalLimits(ours.map(local).collect())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns whether the whole queue is limited, so that every claim needs tokens.
    pub(crate) fn cover_queue(&self) -> bool {
        self.0.iter().any(|limit| limit.kind.is_none())
    }

    /// Returns the kinds with a limit.
    pub(crate) fn kinds(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter_map(|limit| limit.kind.as_deref())
    }

    /// Returns the limits that need claims apart from those of other jobs, for a worker that handles these
    /// kinds.
    pub(crate) fn targets(&self, handled: Option<&[String]>) -> impl Iterator<Item = &LocalLimit> {
        self.0
            .iter()
            .filter(move |limit| match (&limit.kind, handled) {
                (Some(kind), Some(handled)) => handled.contains(kind),
                (None, _) | (_, None) => true,
            })
    }

    /// Returns the limits that concern a job of this kind; `None`: of a kind without a limit.
    pub(crate) fn scope(&self, queue: &Arc<str>, kind: Option<&str>) -> Option<TokenScope> {
        let concern = |limit: &&LocalLimit| limit.kind.is_none() || limit.kind.as_deref() == kind;
        let concerned: Vec<&LocalLimit> = self.0.iter().filter(concern).collect();
        let hold = concerned.iter().map(|limit| limit.hold).min()?;
        let kinds = concerned
            .iter()
            .map(|limit| limit.kind.clone().unwrap_or_default());
        Some(TokenScope {
            queue: Arc::clone(queue),
            kinds: kinds.collect(),
            hold,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limit(name: &str, kind: &str, hold_ms: u64) -> LimitStatus {
        LimitStatus {
            name: name.to_owned(),
            kind: kind.to_owned(),
            hold: Duration::from_millis(hold_ms),
        }
    }

    #[test]
    fn a_job_obeys_the_limits_of_its_queue_and_of_its_kind() {
        let limits = LocalLimits::of(
            "queue:mails",
            vec![
                limit("queue:mails", "", 100),
                limit("queue:mails", "news", 40),
                limit("queue:other", "news", 20),
            ],
        );
        let queue: Arc<str> = "mails".into();
        let scope = |kind| limits.scope(&queue, kind);
        for (kind, kinds, hold) in [
            (None, vec![""], 100),
            (Some("bill"), vec![""], 100),
            (Some("news"), vec!["", "news"], 40),
        ] {
            let scope = scope(kind).unwrap();
            assert_eq!(scope.kinds, kinds, "{kind:?}");
            assert_eq!(scope.hold, Duration::from_millis(hold), "{kind:?}");
        }
        assert!(limits.cover_queue());
        assert_eq!(limits.kinds().collect::<Vec<_>>(), ["news"]);
        let none = LocalLimits::of("queue:third", vec![limit("queue:mails", "", 100)]);
        assert!(none.is_empty() && none.scope(&queue, Some("news")).is_none());
    }

    #[test]
    fn a_worker_claims_only_for_the_limits_of_its_kinds() {
        let limits = LocalLimits::of(
            "queue:q",
            vec![limit("queue:q", "a", 20), limit("queue:q", "b", 20)],
        );
        let handled = ["b".to_owned()];
        let kinds: Vec<_> = limits
            .targets(Some(&handled))
            .map(|it| it.kind.as_deref())
            .collect();
        assert_eq!(kinds, [Some("b")]);
        assert_eq!(limits.targets(None).count(), 2);
    }
}
