//! The rate limits of the worker's queue. Pure.

use std::sync::Arc;

use crate::pipeline::gates::LimitStatus;
use crate::pipeline::tokens::TokenScope;

/// The rate limits of the queue.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct LocalLimits {
    /// Those of the queue and of kinds.
    shared: Arc<[LimitStatus]>,
    /// Whether each group has a limit, too.
    pub(crate) each_group: bool,
}

impl LocalLimits {
    pub(super) fn of(limits: Vec<LimitStatus>) -> LocalLimits {
        let limits = limits.into_iter();
        let (of_groups, shared): (Vec<_>, Vec<_>) = limits.partition(|limit| limit.each_group);
        LocalLimits {
            shared: shared.into(),
            each_group: !of_groups.is_empty(),
        }
    }

    /// Returns whether neither the queue nor a kind has a limit.
    pub(crate) fn is_empty(&self) -> bool {
        self.shared.is_empty()
    }

    /// Returns whether the whole queue is limited, so that every claim needs tokens.
    pub(crate) fn cover_queue(&self) -> bool {
        self.shared.iter().any(|limit| limit.kind.is_none())
    }

    /// Returns the kinds with a limit.
    pub(crate) fn kinds(&self) -> impl Iterator<Item = &str> {
        self.shared.iter().filter_map(|limit| limit.kind.as_deref())
    }

    /// Returns the limits that need claims apart from those of other jobs, for a worker that handles these
    /// kinds and may not claim those of `except`.
    pub(crate) fn targets(
        &self,
        handled: Option<&[String]>,
        except: &[String],
    ) -> impl Iterator<Item = &LimitStatus> {
        let is_claimed = move |kind: &String| {
            handled.is_none_or(|handled| handled.contains(kind)) && !except.contains(kind)
        };
        let limits = self.shared.iter();
        limits.filter(move |limit| limit.kind.as_ref().is_none_or(is_claimed))
    }

    /// Returns the limits that concern a job of this kind; `None`: of a kind without a limit.
    pub(crate) fn scope(&self, queue: &Arc<str>, kind: Option<&str>) -> Option<TokenScope> {
        let concern = |limit: &&LimitStatus| limit.kind.is_none() || limit.kind.as_deref() == kind;
        let concerned: Vec<&LimitStatus> = self.shared.iter().filter(concern).collect();
        let hold = concerned.iter().map(|limit| limit.hold).min()?;
        let kinds = concerned
            .iter()
            .map(|limit| limit.kind.clone().unwrap_or_default());
        Some(TokenScope {
            queue: Arc::clone(queue),
            kinds: kinds.collect(),
            hold,
            each_group: self.each_group,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_worker_claims_only_for_the_limits_of_kinds_that_it_may_claim() {
        let both = ["a", "b"].map(|kind| LimitStatus {
            each_group: false,
            kind: Some(kind.to_owned()),
            hold: Duration::from_millis(20),
        });
        let limits = LocalLimits::of(both.into());
        let b = ["b".to_owned()];
        for (handled, except, claimed) in [
            (None, &[][..], &["a", "b"][..]),
            (Some(&b[..]), &[], &["b"]),
            // Its breaker is open. A claim that waits for its tokens would keep the worker awake.
            (None, &b[..], &["a"]),
            (Some(&b[..]), &b[..], &[]),
        ] {
            let targets = limits.targets(handled, except);
            let kinds: Vec<&str> = targets.filter_map(|it| it.kind.as_deref()).collect();
            assert_eq!(kinds, claimed, "{handled:?} {except:?}");
        }
    }
}
