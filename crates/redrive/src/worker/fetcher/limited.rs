//! Claims under rate limits.
//!
//! Jobs without a limit are claimed as always, without the limited kinds. Each limit has claims and a
//! search apart from those, so that a limit without tokens delays no other job.

use std::sync::Arc;
use std::time::Duration;

use super::Fetcher;
use crate::error::Result;
use crate::pipeline::claim::demand::Fill;
use crate::pipeline::claim::group_walk::GroupWalk;
use crate::pipeline::claim::mark::Scan;
use crate::pipeline::claim::{ClaimedJob, fill};
use crate::pipeline::gates::LimitStatus;
use crate::pipeline::tokens::claim_with_tokens;
use crate::sync::Instant;
use crate::worker::breaker_state::ClaimPlan;
use crate::worker::claimer::{Claimer, add};
use crate::worker::source::Source;

/// How long tokens gather until the next claim takes them, because a claim of one job costs as much as one
/// of many.
const GATHER: Duration = Duration::from_millis(20);

/// How long other jobs have priority after a claim under a limit found none, unless a notification
/// arrives.
const REST: Duration = Duration::from_millis(20);

/// Where the claims of a limit look, and when.
pub(super) struct LimitedSearch {
    limit: LimitStatus,
    source: Source,
    walk: GroupWalk,
    /// When to claim again.
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
        if self.woken {
            // A notification says that there may be jobs, not that there are tokens.
            let rest = self.limited.values_mut().filter(|it| !it.lacks_tokens);
            rest.for_each(|target| target.next_at = Instant::now());
        }
        let limits_queue = plan.limits_queue();
        if limits_queue {
            self.promote_when_due()?;
            if std::mem::take(&mut self.woken) {
                self.promote()?;
            }
        }
        let handled = self.state.kinds.as_deref();
        let limits = plan.targets(handled).cloned().map(Some);
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
                None => self.claim_round(room, &plan.left_out(&plan.except)),
            };
            add(&self.state, &mut claimed, more)?;
        }
        Ok(claimed)
    }

    /// Returns when tokens are expected for a claim that had none, or when a search goes on.
    pub(super) fn next_tokens(&self, plan: &ClaimPlan) -> Option<Instant> {
        let handled = self.state.kinds.as_deref();
        let targets = plan.targets(handled);
        let searches = targets.filter_map(|limit| self.limited.get(&limit.kind));
        let expected = searches.filter(|target| target.is_expected);
        expected.map(|target| target.next_at).min()
    }

    /// Claims jobs under a limit if it is its turn. Searches on where the last claim of the same kinds ended.
    fn claim_limited(
        &mut self,
        limit: &LimitStatus,
        room: usize,
        plan: &ClaimPlan,
    ) -> Result<Vec<ClaimedJob>> {
        let sources = &mut self.claimer.sources;
        let source = match &limit.kind {
            None => sources.of(self.state.kinds.as_deref(), &plan.left_out(&plan.except)),
            Some(kind) => sources.of(Some(std::slice::from_ref(kind)), &[]),
        };
        let new = || LimitedSearch {
            limit: limit.clone(),
            source: source.clone(),
            walk: GroupWalk::default(),
            next_at: Instant::now(),
            is_expected: false,
            lacks_tokens: false,
        };
        let known = self.limited.entry(limit.kind.clone());
        let target = known.or_insert_with(new);
        if target.limit != *limit {
            *target = new();
        }
        target.source = source;
        match target.next_at <= Instant::now() {
            true => target.claim(&mut self.claimer, room),
            false => Ok(Vec::new()),
        }
    }
}

impl LimitedSearch {
    fn claim(&mut self, claimer: &mut Claimer, room: usize) -> Result<Vec<ClaimedJob>> {
        let state = Arc::clone(&claimer.state);
        let (mut claimed, mut found) = (Vec::new(), Ok(None));
        for scan in claimer.scans(&self.source)? {
            found = self.scan(scan, claimer, room - claimed.len(), &mut claimed);
            if !matches!(found, Ok(None)) || claimed.len() >= room {
                break;
            }
        }
        let now = Instant::now();
        let expected_in = match found {
            Ok(Some(wait)) => Some(wait.max(GATHER)),
            // The search, or the walk over the groups, continues.
            Ok(None) if self.source.search().is_behind() => Some(Duration::ZERO),
            // A job of a group that has a token may come earlier.
            Ok(None) if state.breakers.has_groups() => {
                let wait = self.walk.wait(now);
                wait.map(|wait| wait.min(state.config.poll))
            }
            Ok(None) | Err(_) => None,
        };
        self.lacks_tokens = matches!(found, Ok(Some(_)));
        self.is_expected = expected_in.is_some();
        self.next_at = now + expected_in.unwrap_or(REST);
        add(&state, &mut claimed, found.map(|_| Vec::new()))?;
        Ok(claimed)
    }

    /// Claims with one scan. Adds the jobs to `claimed`. Returns how long there are no tokens. `None`: there are more
    /// tokens than jobs.
    fn scan(
        &mut self,
        scan: Scan,
        claimer: &mut Claimer,
        room: usize,
        claimed: &mut Vec<ClaimedJob>,
    ) -> Result<Option<Duration>> {
        let (state, asked_at) = (Arc::clone(&claimer.state), Instant::now());
        let kind = self.limit.kind.clone().unwrap_or_default();
        let free = state.slots.count.saturating_sub(state.in_flight());
        let has_groups = state.breakers.has_groups();
        let groups = has_groups.then(|| self.walk.look(room, 1, state.take_passed()));
        let answer = claimer.scan(
            "claim jobs under a rate limit",
            (&self.source, scan, 0),
            room,
            move |session, request| {
                claim_with_tokens(session, &kind, free, request, groups.as_ref())
            },
            |answer| Some(&answer.as_ref().ok()?.ring),
        );
        let claim = match answer {
            Ok(Ok(claim)) => claim,
            without => return without.map(Result::err),
        };
        let before = claimed.len();
        claimed.extend(claim.ring.jobs);
        if let Some(answer) = claim.of_groups {
            state.hold(&answer.claimed);
            let (now, found) = (Instant::now(), answer.claimed.len());
            let took = now.duration_since(asked_at);
            self.walk.note(now, took, found, answer.place);
            claimed.extend(answer.claimed);
        }
        Ok(match fill(claimed[before..].iter(), claim.tokens) {
            Fill::Full => Some(Duration::ZERO),
            Fill::Partial => None,
        })
    }
}
