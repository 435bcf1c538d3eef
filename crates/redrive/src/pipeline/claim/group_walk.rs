//! The walk over the groups of a queue, so that they take turns. Pure.
//!
//! Each claim looks at a window of groups behind those of the claim before, and doubles the window while the groups
//! give fewer jobs than it wants. The first group follows the last one. After a walk that found nothing in all groups,
//! the next one waits for [a second](WALK_EVERY) or, with rate limits, until the first group may have a token.
//!
//! Not covered: of a limited or fair group, a claim reads the first 1,000 jobs, so it finds no handled job behind
//! more unhandled ones. Dead rows of waiting jobs and of slots are left to vacuum.

use std::time::Duration;

use super::demand::Fill;
use crate::sync::Instant;

/// The maximum number of groups that one claim looks at.
const MAX_WINDOW: usize = 500;
/// How many groups a claim looks at in addition to those it needs if each of them gives its share.
const SPARE_GROUPS: usize = 8;
/// How long tokens gather until the next claim takes them, because a claim of one job costs as much as one of many.
pub(crate) const GATHER: Duration = Duration::from_millis(20);
/// How often to walk over all groups while they have no job for this worker.
const WALK_EVERY: Duration = Duration::from_secs(1);

/// Where a claim looks for jobs of groups.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct GroupLook {
    /// The group after which the walk starts. `None`: it starts with the first one.
    pub(super) after: Option<String>,
    /// How many groups to walk over.
    pub(super) window: usize,
    /// How many jobs of a group to take before those of the next one.
    pub(super) in_a_row: usize,
}

/// Where a claim of groups ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct GroupPlace {
    /// Whether it took as many jobs as it asked for, or as many bytes as it may take.
    pub(crate) fill: Fill,
    /// The group after which the next walk starts. `None`: this one passed the last group and did not find enough jobs.
    pub(super) walked_to: Option<String>,
    /// How many groups of the walk it passed until it had enough jobs.
    pub(super) walked: usize,
    /// Whether it made letters of jobs behind a letter. There may be more.
    pub(super) has_diverted: bool,
    /// When the first of the groups without a token may have one.
    pub(super) token_in: Option<Duration>,
}

/// The walk of one worker over the groups of its queue.
#[derive(Debug, Default)]
pub(crate) struct GroupWalk {
    /// Where the next claim looks, at least.
    next: GroupLook,
    /// Whether a job was claimed or diverted since the walk last passed the first group.
    has_found: bool,
    /// When a walk without a result may be continued at once.
    again_at: Option<Instant>,
    /// When the first of the groups without a token may have one, since the walk last passed the first group.
    token_at: Option<Instant>,
    /// The duration of the last claim.
    took: Duration,
}

impl GroupWalk {
    /// Returns where the next claim of up to `limit` jobs looks.
    pub(crate) fn look(&mut self, limit: usize, in_a_row: usize) -> GroupLook {
        let needed = limit.div_ceil(in_a_row.max(1)).saturating_add(SPARE_GROUPS);
        let next = &mut self.next;
        next.window = next.window.max(needed).min(MAX_WINDOW);
        next.in_a_row = in_a_row;
        next.clone()
    }

    /// Records the end of a claim.
    pub(crate) fn note(&mut self, now: Instant, took: Duration, jobs: usize, place: GroupPlace) {
        self.took = took;
        let is_under_way = self.next.after.is_some();
        self.has_found = jobs > 0 || place.has_diverted || is_under_way && self.has_found;
        self.next.window = match (place.fill, &place.walked_to) {
            // Many groups are blocked or have few jobs.
            (Fill::Partial, Some(_)) => self.next.window * 2,
            (Fill::Partial, None) => self.next.window,
            (Fill::Full, _) => place.walked + place.walked / 8 + SPARE_GROUPS,
        };
        let token_at = place.token_in.map(|wait| now + wait.max(GATHER));
        let before = self.token_at.filter(|_| is_under_way);
        self.token_at = before.into_iter().chain(token_at).min();
        self.next.after = place.walked_to;
        if !self.is_unfinished() {
            let again_at = self.token_at.into_iter().chain([now + WALK_EVERY]);
            self.again_at = again_at.min();
        }
    }

    /// Whether a group may have a job that the walk has not looked for.
    pub(crate) fn is_unfinished(&self) -> bool {
        self.next.after.is_some() || self.has_found
    }

    /// Returns how long a worker without jobs waits before it continues the walk, at most half of its time.
    /// `None`: until it is woken or polls.
    pub(crate) fn wait(&self, now: Instant) -> Option<Duration> {
        let until = |at: Instant| at.saturating_duration_since(now);
        let pause = match (self.is_unfinished(), self.token_at) {
            (true, _) => self.again_at.map_or(Duration::ZERO, until),
            (false, token_at) => until(token_at?),
        };
        Some(pause.max(self.took).max(Duration::from_millis(1)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOOK: Duration = Duration::from_millis(5);

    fn place(walked_to: Option<&str>) -> GroupPlace {
        GroupPlace {
            fill: Fill::Partial,
            walked_to: walked_to.map(str::to_owned),
            walked: 100,
            has_diverted: false,
            token_in: None,
        }
    }

    fn token_in(ms: u64, walked_to: Option<&str>) -> GroupPlace {
        GroupPlace {
            token_in: Some(Duration::from_millis(ms)),
            ..place(walked_to)
        }
    }

    #[test]
    fn a_walk_starts_again_when_a_group_may_have_a_token() {
        let (now, ms) = (Instant::now(), Duration::from_millis);
        // A small queue: one look passes all groups.
        let mut walk = GroupWalk::default();
        walk.note(now, TOOK, 0, token_in(300, None));
        assert_eq!(walk.wait(now), Some(ms(300)));
        // A token that comes very soon waits for others.
        walk.note(now, TOOK, 0, token_in(1, None));
        assert_eq!(walk.wait(now), Some(GATHER));
        // No group lacks a token any more.
        walk.note(now, TOOK, 0, place(None));
        assert_eq!(walk.wait(now), None);
        // A large queue: the earliest of a whole pass counts.
        walk.note(now, TOOK, 0, token_in(300, Some("m")));
        assert_eq!(walk.wait(now + ms(1000)), Some(TOOK));
        walk.note(now, TOOK, 0, token_in(700, None));
        assert_eq!(walk.wait(now), Some(ms(300)));
        walk.note(now + ms(300), TOOK, 0, token_in(900, Some("m")));
        assert_eq!(walk.wait(now + ms(300)), Some(TOOK));
        // A long wait for a token delays no other job.
        let mut walk = GroupWalk::default();
        walk.note(now, TOOK, 0, token_in(60_000, None));
        walk.note(now, TOOK, 0, token_in(60_000, Some("m")));
        assert_eq!(walk.wait(now), Some(WALK_EVERY));
    }

    #[test]
    fn a_walk_ends_after_it_has_passed_all_groups_without_a_job_and_starts_again_after_a_second() {
        let now = Instant::now();
        let mut walk = GroupWalk::default();
        assert_eq!(walk.wait(now), None);
        for (jobs, walked_to, wait) in [
            (0, Some("m"), Some(TOOK)),
            (0, None, None),
            // A small queue: one look passes all groups.
            (3, None, Some(WALK_EVERY)),
            (0, None, None),
            // A large one: the groups before the last job are passed once more.
            (0, Some("m"), Some(WALK_EVERY)),
            (2, Some("t"), Some(WALK_EVERY)),
            (0, None, Some(WALK_EVERY)),
            (0, Some("m"), Some(WALK_EVERY)),
            (0, None, None),
        ] {
            walk.note(now, TOOK, jobs, place(walked_to));
            assert_eq!(walk.wait(now), wait, "{jobs} {walked_to:?}");
            assert_eq!(walk.wait(now + WALK_EVERY), wait.map(|_| TOOK));
            let look = walk.look(1, 1);
            assert_eq!(look.after.as_deref(), walked_to);
        }
    }

    #[test]
    fn a_look_covers_more_groups_until_they_give_as_many_jobs_as_it_wants() {
        let mut walk = GroupWalk::default();
        for (found, walked_to, window) in [
            // Ten groups are enough if each gives ten jobs.
            (30, Some("a"), 18),
            (30, Some("b"), 36),
            (0, Some("c"), 72),
            (0, Some("d"), 144),
            (0, Some("e"), 288),
            (0, Some("f"), 500),
            // All groups were seen.
            (0, None, 500),
            (100, Some("a"), 500),
            // The last claim needed 100 groups.
            (100, Some("b"), 120),
        ] {
            let look = walk.look(100, 10);
            assert_eq!(look.window, window, "{found} {walked_to:?}");
            let place = GroupPlace {
                fill: Fill::of(found, 100),
                ..place(walked_to)
            };
            walk.note(Instant::now(), TOOK, found, place);
        }
        // Large payloads end a claim early, and the groups behind them may have as many.
        walk.look(100, 10);
        let of_bytes = GroupPlace {
            fill: Fill::Full,
            ..place(Some("c"))
        };
        walk.note(Instant::now(), TOOK, 8, of_bytes);
        assert_eq!(walk.look(100, 10).window, 120);
        assert_eq!(GroupWalk::default().look(1000, 1).window, 500);
    }
}
