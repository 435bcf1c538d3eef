//! Decides what the fetcher may claim.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::LocalBreakers;
use crate::pipeline::gates::LimitStatus;
use crate::sync::Instant;
use crate::sync::atomic::Ordering;
use crate::worker::latch::lock;

/// The jobs that the fetcher may claim.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ClaimPlan {
    /// Nothing but a probe.
    pub(crate) is_shut: bool,
    /// The breaker to probe with one of the jobs.
    pub(crate) probe: Option<String>,
    /// The kinds that can serve as the probe. `None`: those that the worker handles.
    pub(crate) kinds: Option<Arc<[String]>>,
    /// The kinds not to claim.
    pub(crate) except: Vec<String>,
    /// When the next probe is due or the pause ends.
    pub(crate) next: Option<Instant>,
    /// The rate limits of the queue and of kinds.
    pub(crate) limits: Arc<[LimitStatus]>,
}

impl ClaimPlan {
    /// Returns whether the whole queue is limited, so that every claim needs tokens.
    pub(crate) fn limits_queue(&self) -> bool {
        self.limits.iter().any(|limit| limit.kind.is_none())
    }

    /// Returns the limits that need claims apart from those of other jobs, for a worker that handles these kinds.
    pub(crate) fn targets(&self, handled: Option<&[String]>) -> impl Iterator<Item = &LimitStatus> {
        let is_claimed = move |kind: &String| {
            handled.is_none_or(|handled| handled.contains(kind)) && !self.except.contains(kind)
        };
        let limits = self.limits.iter();
        limits.filter(move |limit| limit.kind.as_ref().is_none_or(is_claimed))
    }

    /// Returns the kinds that claims without a limit leave out, beside those of `held`.
    pub(crate) fn left_out(&self, held: &[String]) -> Vec<String> {
        let limited = self.limits.iter().filter_map(|limit| limit.kind.clone());
        let except: BTreeSet<String> = held.iter().cloned().chain(limited).collect();
        except.into_iter().collect()
    }
}

impl LocalBreakers {
    /// Returns what the fetcher may claim. `handled` are its kinds, `None`: all.
    pub(crate) fn plan(&self, handled: Option<&[String]>, now: Instant) -> ClaimPlan {
        if self.quiet.load(Ordering::Relaxed) {
            return ClaimPlan::default();
        }
        let mut known = lock(&self.known);
        if known.is_paused(now) {
            // Nothing runs, not even a probe.
            return ClaimPlan {
                is_shut: true,
                next: known.paused_until,
                ..ClaimPlan::default()
            };
        }
        known.paused_until = None;
        self.settle_down(&known);
        let others = known.open.iter().filter(|(name, _)| **name != self.queue);
        let except: BTreeSet<&String> = others.flat_map(|(_, gate)| &gate.kinds).collect();
        let mut plan = ClaimPlan {
            is_shut: known.open.contains_key(&self.queue),
            except: except.into_iter().cloned().collect(),
            limits: known.limits.clone(),
            ..ClaimPlan::default()
        };
        for (name, gate) in &known.open {
            // While the whole queue is held back, its dependencies cannot be probed.
            if plan.is_shut && *name != self.queue {
                continue;
            }
            let kinds: Option<Arc<[String]>> = (*name != self.queue).then(|| {
                let ours = |kind: &&String| handled.is_none_or(|handled| handled.contains(kind));
                gate.kinds.iter().filter(ours).cloned().collect()
            });
            if kinds.as_ref().is_some_and(|kinds| kinds.is_empty()) {
                continue;
            }
            match gate.probe_at {
                Some(at) if at <= now => {
                    plan.probe = Some(name.clone());
                    plan.kinds = kinds;
                }
                Some(at) => plan.next = plan.next.into_iter().chain([at]).min(),
                None => {}
            }
        }
        if plan.kinds.is_some() {
            plan.except.clear();
        }
        plan
    }
}
