//! Claims under rate limits.
//!
//! Jobs without a limit are claimed as always, without the limited kinds. Each limit has claims and a
//! search apart from those, so that a limit without tokens delays no other job.

use std::time::Duration;

use super::Fetcher;
use crate::error::Result;
use crate::pipeline::claim::ClaimedJob;
use crate::pipeline::claim::group_walk::GATHER;
use crate::pipeline::gates::LimitStatus;
use crate::sync::Instant;
use crate::worker::breaker_state::ClaimPlan;
use crate::worker::claimer::add;
use crate::worker::source::Sources;

/// When to claim under a limit again.
pub(super) struct LimitedTurn {
    next_at: Instant,
    /// Whether there are tokens then, or the search goes on. Otherwise there was no job: it claims at a notification or a
    /// poll, and not before that time.
    is_expected: bool,
    /// Whether there were no tokens, so that a notification is no reason to claim before that time.
    lacks_tokens: bool,
}

impl Fetcher {
    /// Claims jobs with and without a limit. The plan has at least one limit.
    pub(super) fn limited_round(
        &mut self,
        demand: usize,
        plan: &ClaimPlan,
    ) -> Result<Vec<ClaimedJob>> {
        // A limit that was changed may have tokens. A notification says that there may be jobs, not that there are tokens.
        let woken = self.woken;
        self.limited
            .retain(|limit, turn| plan.limits.contains(limit) && (turn.lacks_tokens || !woken));
        let limits_queue = plan.limits_queue();
        if limits_queue {
            // No job is claimed without a token, so only the limits say when to look again.
            self.claimer.source = Sources::default().of(None, &[]);
            self.promote_when_due()?;
            if std::mem::take(&mut self.woken) {
                self.promote()?;
            }
        }
        let kinds = self.kinds(plan);
        let limits = plan.targets(kinds.as_deref()).cloned().map(Some);
        // `None`: the jobs of kinds without a limit.
        let mut targets: Vec<Option<LimitStatus>> =
            limits.chain((!limits_queue).then_some(None)).collect();
        // Each of them is first at times, so that none starves.
        fastrand::shuffle(&mut targets);
        let mut claimed = Vec::new();
        for target in targets {
            let room = demand.saturating_sub(claimed.len());
            if room == 0 {
                break;
            }
            let more = match target {
                Some(limit) => self.claim_limited(&limit, room, plan),
                None => self.claim_round(room, plan, &plan.left_out(&plan.except)),
            };
            add(&self.state, &mut claimed, more)?;
        }
        Ok(claimed)
    }

    /// Lets the next round ask for tokens and jobs under each limit.
    pub(super) fn ask_again(&mut self) {
        let now = Instant::now();
        let targets = self.limited.values_mut();
        targets.for_each(|target| target.next_at = now);
    }

    /// Returns when tokens are expected for a claim that had none, or when a search goes on.
    pub(super) fn next_tokens(&self, plan: &ClaimPlan) -> Option<Instant> {
        let kinds = self.kinds(plan);
        let targets = plan.targets(kinds.as_deref());
        let turns = targets.filter_map(|limit| self.limited.get(limit));
        let expected = turns.filter(|turn| turn.is_expected);
        expected.map(|turn| turn.next_at).min()
    }

    /// Claims jobs under a limit if it is its turn. Searches on where the last claim of the same kinds ended.
    fn claim_limited(
        &mut self,
        limit: &LimitStatus,
        room: usize,
        plan: &ClaimPlan,
    ) -> Result<Vec<ClaimedJob>> {
        let turn = self.limited.get(limit);
        if turn.is_some_and(|turn| turn.next_at > Instant::now()) {
            return Ok(Vec::new());
        }
        let (kinds, sources) = (self.kinds(plan), &mut self.claimer.sources);
        let source = match &limit.kind {
            None => sources.of(kinds.as_deref(), &plan.left_out(&plan.except)),
            Some(kind) => sources.of(Some(std::slice::from_ref(kind)), &[]),
        };
        let unlimited = std::mem::replace(&mut self.claimer.source, source.clone());
        let kind = limit.kind.as_deref().unwrap_or_default();
        (self.claimer.tokens, self.claimer.tokens_in) = (Some(kind.into()), None);
        let claimed = self.claim_all(room);
        let tokens_in = self.claimer.tokens_in.take();
        self.claimer.tokens = None;
        self.claimer.source = unlimited;
        let now = Instant::now();
        let expected_in = match tokens_in {
            _ if claimed.is_err() => None,
            Some(wait) => Some(wait.max(GATHER)),
            // The search, or the walk over the groups, continues.
            None if source.search().is_behind() => Some(Duration::ZERO),
            // A job of a group that has a token may come earlier.
            None if self.state.breakers.has_groups() => {
                let wait = source.walk().wait(now);
                wait.map(|wait| wait.min(self.state.config.poll))
            }
            None => None,
        };
        let turn = LimitedTurn {
            // Without a notification, other jobs have priority for a moment.
            next_at: now + expected_in.unwrap_or(GATHER),
            is_expected: expected_in.is_some(),
            lacks_tokens: tokens_in.is_some(),
        };
        self.limited.insert(limit.clone(), turn);
        claimed
    }
}
