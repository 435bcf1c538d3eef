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
use crate::pipeline::tokens::{TokenScope, claim_with_tokens};
use crate::sync::Instant;
use crate::worker::breaker_state::{ClaimPlan, LocalLimits};
use crate::worker::claimer::{Claimer, add};
use crate::worker::source::Source;

/// How long tokens gather until the next claim takes them, because a claim of one job costs as much as one
/// of many.
const GATHER: Duration = Duration::from_millis(20);

/// How long other jobs have priority after a claim under a limit found none, unless a notification
/// arrives.
const REST: Duration = Duration::from_millis(20);

/// From this time on, a claimed job may wait for the jobs before it.
const PATIENT: Duration = Duration::from_millis(100);

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
            let rest = self.limited.values_mut().filter(|it| !it.is_expected);
            rest.for_each(|target| target.next_at = Instant::now());
        }
        let cover_queue = plan.limits.cover_queue();
        if cover_queue {
            self.promote_when_due()?;
            if std::mem::take(&mut self.woken) {
                self.promote()?;
            }
        }
        let kinds = self.kinds(plan);
        let limits = plan.limits.targets(kinds.as_deref(), &plan.except);
        let limits = limits.cloned().map(Some);
        // `None`: the jobs of kinds without a limit.
        let mut targets: Vec<Option<LimitStatus>> =
            limits.chain((!cover_queue).then_some(None)).collect();
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
                None => self.claim_round(room, plan, &except(&plan.except, &plan.limits)),
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
        let targets = plan.limits.targets(kinds.as_deref(), &plan.except);
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
        let queue = self.state.config.queue.shared_name();
        let Some(scope) = plan.limits.scope(&queue, limit.kind.as_deref()) else {
            return Ok(Vec::new());
        };
        let (kinds, sources) = (self.kinds(plan), &mut self.claimer.sources);
        let source = match &limit.kind {
            None => sources.of(kinds.as_deref(), &except(&plan.except, &plan.limits)),
            Some(kind) => sources.of(Some(std::slice::from_ref(kind)), &[]),
        };
        let new = || LimitedSearch {
            limit: limit.clone(),
            source: source.clone(),
            walk: GroupWalk::default(),
            next_at: Instant::now(),
            is_expected: false,
        };
        let known = self.limited.entry(limit.kind.clone());
        let target = known.or_insert_with(new);
        if target.limit != *limit {
            *target = new();
        }
        target.source = source;
        match target.next_at <= Instant::now() {
            true => target.claim(&mut self.claimer, &scope, room),
            false => Ok(Vec::new()),
        }
    }
}

impl LimitedSearch {
    fn claim(
        &mut self,
        claimer: &mut Claimer,
        scope: &TokenScope,
        room: usize,
    ) -> Result<Vec<ClaimedJob>> {
        let state = Arc::clone(&claimer.state);
        let free = state.slots.count.saturating_sub(state.in_flight());
        let room = in_time(room, free, scope.hold);
        let (mut claimed, mut found) = (Vec::new(), Ok(None));
        for scan in claimer.scans(&self.source)? {
            found = self.scan(scan, claimer, scope, room - claimed.len(), &mut claimed);
            if !matches!(found, Ok(None)) || claimed.len() >= room {
                break;
            }
        }
        let now = Instant::now();
        let expected_in = match found {
            Ok(Some(wait)) => Some(wait.max(GATHER)),
            // The search, or the walk over the groups, continues.
            Ok(None) if self.source.search().is_behind() => Some(Duration::ZERO),
            Ok(None) if state.breakers.has_groups() => self.walk.wait(now),
            Ok(None) | Err(_) => None,
        };
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
        scope: &TokenScope,
        room: usize,
        claimed: &mut Vec<ClaimedJob>,
    ) -> Result<Option<Duration>> {
        let (scope, state, asked_at) = (scope.clone(), Arc::clone(&claimer.state), Instant::now());
        let has_groups = state.breakers.has_groups();
        let groups = has_groups.then(|| self.walk.look(room, 1, state.take_passed()));
        let answer = claimer.scan(
            "claim jobs under a rate limit",
            (&self.source, scan, 0),
            room,
            move |session, request| claim_with_tokens(session, &scope, request, groups.as_ref()),
            |answer| {
                let claim = answer.as_ref().ok()?;
                Some((&claim.ring, claim.tokens))
            },
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

/// Returns the kinds that claims without a limit leave out, beside those of `held`.
fn except(held: &[String], limits: &LocalLimits) -> Vec<String> {
    let held = held.iter().map(String::as_str);
    let mut except: Vec<String> = held.chain(limits.kinds()).map(str::to_owned).collect();
    except.sort_unstable();
    except.dedup();
    except
}

/// Returns how many of `room` jobs are likely to start within `hold`. The room counts what the slots finish within
/// 50 ms at the observed run time.
fn in_time(room: usize, free: usize, hold: Duration) -> usize {
    if hold >= PATIENT {
        return room;
    }
    let share = hold.as_nanos() * room as u128 / PATIENT.as_nanos();
    let share = usize::try_from(share).unwrap_or(room);
    room.min(share.max(free).max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn with_little_time_only_jobs_that_can_start_at_once_are_claimed() {
        for (room, free, hold_ms, expected) in [
            (1000, 4, 100, 1000),
            (1000, 4, 250, 1000),
            (1000, 4, 20, 200),
            (8, 8, 20, 8),
            (10, 4, 20, 4),
            (10, 0, 20, 2),
            (3, 0, 20, 1),
            (2, 8, 20, 2),
        ] {
            let claimed = in_time(room, free, Duration::from_millis(hold_ms));
            assert_eq!(claimed, expected, "{room} {free} {hold_ms}");
        }
    }
}
