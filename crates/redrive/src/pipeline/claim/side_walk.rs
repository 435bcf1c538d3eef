//! The walk of a second claim beside another one. Pure.

use std::time::Duration;

use super::group_walk::{GroupLook, GroupPlace, GroupWalk, WalkStart};
use crate::sync::Instant;

/// A rest lasts this many times as long as the claim that met the other walk.
const REST: u32 = 10;
/// The maximum duration of a rest. A claim that waited for the other one, or read many dead rows, takes long.
const MAX_REST: Duration = Duration::from_millis(100);

/// A walk over the groups of a queue that another walk passes too.
///
/// It starts behind any group, far from the other walk if there are many groups, and continues until it passes
/// the last group or meets the other walk: then the groups are taken, and most of them give no job. The next claim
/// comes after a rest, and starts behind any group again.
#[derive(Debug)]
pub(crate) struct SideWalk {
    walk: GroupWalk,
    is_under_way: bool,
    /// How many groups the last claim looked at.
    groups: usize,
    rests_until: Option<Instant>,
}

impl SideWalk {
    pub(crate) fn new() -> SideWalk {
        SideWalk {
            walk: GroupWalk::new(),
            is_under_way: false,
            groups: 0,
            rests_until: None,
        }
    }

    /// Returns where the next claim of up to `limit` jobs looks, which takes up to `in_a_row` jobs of a group before
    /// those of the next one. `None`: it rests.
    pub(crate) fn look(
        &mut self,
        now: Instant,
        limit: usize,
        in_a_row: usize,
    ) -> Option<GroupLook> {
        if self.rests_until.is_some_and(|until| now < until) {
            return None;
        }
        let look = self.walk.look(limit, in_a_row, Vec::new());
        self.groups = usize::try_from(look.window).unwrap_or(0);
        let start = match self.is_under_way {
            true => look.start,
            false => WalkStart::Anywhere,
        };
        Some(GroupLook {
            start,
            // The other walk looks for these.
            arrived: None,
            ..look
        })
    }

    /// Records the end of a claim.
    pub(crate) fn note(&mut self, now: Instant, took: Duration, jobs: usize, place: GroupPlace) {
        self.walk.note(now, took, jobs, place);
        // If each group gives a job, the groups are only small, and the next claim looks at more of them.
        let met = !self.walk.finds_many && jobs < self.groups;
        self.is_under_way = self.walk.after.is_some() && !met;
        self.rests_until = met.then(|| now + (took * REST).min(MAX_REST));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOOK: Duration = Duration::from_millis(5);

    fn place(walked_to: Option<&str>) -> GroupPlace {
        GroupPlace {
            walked_to: walked_to.map(str::to_owned),
            walked: 10,
            more_follow: walked_to.is_some(),
            arrived_to: 7,
            diverting: Vec::new(),
            token_in: None,
        }
    }

    #[test]
    fn it_continues_while_it_finds_many_jobs_and_starts_anywhere_after_the_last_group() {
        let now = Instant::now();
        let mut walk = SideWalk::new();
        for (jobs, walked_to, next) in [
            (100, Some("m"), WalkStart::After("m".to_owned())),
            (50, Some("t"), WalkStart::After("t".to_owned())),
            (100, None, WalkStart::Anywhere),
        ] {
            walk.look(now, 100, 10).expect("no rest");
            walk.note(now, TOOK, jobs, place(walked_to));
            let look = walk.look(now, 100, 10).expect("no rest");
            assert_eq!((look.start, look.arrived), (next, None), "{jobs}");
        }
    }

    #[test]
    fn it_looks_at_more_groups_without_a_rest_if_each_of_them_has_few_jobs() {
        let now = Instant::now();
        let mut walk = SideWalk::new();
        let mut windows = Vec::new();
        for walked_to in ["b", "d"] {
            let look = walk.look(now, 1000, 20).expect("no rest");
            let groups = usize::try_from(look.window).expect("a window");
            walk.note(now, TOOK, groups, place(Some(walked_to)));
            windows.push((groups, walk.look(now, 1000, 20).map(|look| look.start)));
        }
        let after = |group: &str| Some(WalkStart::After(group.to_owned()));
        assert_eq!(windows, [(58, after("b")), (116, after("d"))]);
    }

    #[test]
    fn no_rest_is_long() {
        let now = Instant::now();
        let mut walk = SideWalk::new();
        walk.look(now, 100, 10).expect("no rest");
        walk.note(now, Duration::from_secs(5), 0, place(None));
        assert_eq!(walk.look(now + MAX_REST / 2, 100, 10), None);
        assert!(walk.look(now + MAX_REST, 100, 10).is_some());
    }

    #[test]
    fn it_rests_and_starts_anywhere_after_a_claim_that_met_the_other_walk() {
        let now = Instant::now();
        let mut walk = SideWalk::new();
        let first = walk.look(now, 100, 10).expect("no rest");
        assert_eq!(first.start, WalkStart::Anywhere);
        walk.note(now, TOOK, 17, place(Some("m")));
        assert_eq!(walk.look(now + TOOK * 9, 100, 10), None);
        let look = walk.look(now + TOOK * 10, 100, 10).expect("the rest ended");
        assert_eq!(look.start, WalkStart::Anywhere);
    }
}
