//! Claims jobs that wait for their group, and walks over the groups so that they take turns.

use std::sync::Arc;
use std::time::Duration;

use uuid::Uuid;

use super::{ClaimRequest, ClaimedJob, MAX_CLAIM_BYTES, read};
use crate::db::session::Session;
use crate::db::sql;
use crate::error::Result;
use crate::sync::Instant;

/// The maximum number of groups that one claim looks at.
const MAX_WINDOW: usize = 500;
/// How many groups a claim looks at in addition to those it wants jobs of, because some are blocked.
const SPARE_GROUPS: usize = 64;
/// How often to walk over all groups while they have no job for this worker.
const WALK_EVERY: Duration = Duration::from_secs(1);

/// Where a claim looks for jobs of groups.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct GroupLook {
    /// The group after which the walk starts. `None`: the first one.
    after: Option<String>,
    /// The job after which jobs count as arrived. `None`: the newest one.
    arrived: Option<i64>,
    /// The groups in which a job has just ended.
    passed: Vec<Arc<str>>,
    /// How many groups to walk over.
    window: i32,
}

/// The result of a claim of groups.
#[derive(Debug)]
pub(crate) struct GroupAnswer {
    pub(crate) claimed: Vec<ClaimedJob>,
    pub(crate) place: GroupPlace,
}

/// Where a claim of groups ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct GroupPlace {
    /// The last group of the walk. `None`: it reached the end.
    walked_to: Option<String>,
    /// The last job that had arrived.
    arrived_to: i64,
}

/// Claims jobs that wait for their group. The parts of the request have no meaning here.
pub(crate) fn claim_groups(
    session: &mut Session,
    claim: &ClaimRequest,
    look: &GroupLook,
) -> Result<GroupAnswer> {
    let queue = &*claim.queue;
    let limit = i64::try_from(claim.limit).unwrap_or(i64::MAX);
    let passed: Vec<&str> = look.passed.iter().map(|group| &**group).collect();
    let rows = session.query(
        &format!("claim jobs of the groups of queue `{queue}`"),
        &sql::CLAIM_GROUPS,
        &[
            &queue,
            &claim.kinds.as_deref(),
            &&*claim.alone,
            &limit,
            &MAX_CLAIM_BYTES,
            &Uuid::new_v4(),
            &claim.worker.0,
            &claim.except.as_deref(),
            &look.after,
            &look.arrived,
            &passed,
            &look.window,
        ],
    )?;
    let place = GroupPlace {
        walked_to: rows.first().and_then(|row| row.get("walked_to")),
        arrived_to: rows.first().map_or(0, |row| row.get("arrived_to")),
    };
    let leases = rows
        .iter()
        .filter(|row| row.get::<_, Option<Uuid>>("lease_id").is_some());
    Ok(GroupAnswer {
        claimed: read(leases, &claim.queue)?,
        place,
    })
}

/// The walk of one worker over the groups of its queue. Pure.
///
/// A claim looks at a window of groups, and the next one continues after it, so that each group has its
/// turn even if most of them are blocked.
#[derive(Debug)]
pub(crate) struct GroupWalk {
    after: Option<String>,
    arrived: Option<i64>,
    /// Whether no job was found since the walk last passed the first group.
    is_fruitless: bool,
    /// Whether a group may have a job that the walk has not looked for.
    is_unfinished: bool,
    /// When a walk without a result may be continued at once.
    again_at: Option<Instant>,
    /// The duration of the last claim.
    took: Duration,
}

impl GroupWalk {
    pub(crate) fn new() -> GroupWalk {
        GroupWalk {
            after: None,
            arrived: None,
            is_fruitless: false,
            is_unfinished: false,
            again_at: None,
            took: Duration::ZERO,
        }
    }

    /// Returns where the next claim of up to `limit` jobs looks.
    pub(crate) fn look(&self, limit: usize, passed: Vec<Arc<str>>) -> GroupLook {
        // Behind blocked groups, the next window is as large as possible.
        let spare = match self.is_fruitless {
            true => MAX_WINDOW,
            false => SPARE_GROUPS,
        };
        let window = limit.saturating_add(spare).min(MAX_WINDOW);
        GroupLook {
            after: self.after.clone(),
            arrived: self.arrived,
            passed,
            window: i32::try_from(window).unwrap_or(i32::MAX),
        }
    }

    /// Records the end of a claim.
    pub(crate) fn note(&mut self, now: Instant, took: Duration, jobs: usize, place: GroupPlace) {
        self.took = took;
        self.is_fruitless = jobs == 0 && (self.is_fruitless || self.after.is_none());
        self.arrived = Some(place.arrived_to);
        self.is_unfinished = place.walked_to.is_some() || !self.is_fruitless;
        if !self.is_unfinished {
            self.again_at = Some(now + WALK_EVERY);
        }
        self.after = place.walked_to;
    }

    /// Returns how long a worker without jobs waits before it continues the walk, at most half of its time.
    /// `None`: until it is woken or polls.
    pub(crate) fn wait(&self, now: Instant) -> Option<Duration> {
        let until = |at: Instant| at.saturating_duration_since(now);
        let pause = self.again_at.map_or(Duration::ZERO, until);
        self.is_unfinished
            .then(|| pause.max(self.took).max(Duration::from_millis(1)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(walked_to: Option<&str>) -> GroupPlace {
        GroupPlace {
            walked_to: walked_to.map(str::to_owned),
            arrived_to: 7,
        }
    }

    #[test]
    fn a_walk_ends_after_it_has_passed_all_groups_without_a_job() {
        let now = Instant::now();
        let took = Duration::from_millis(5);
        let mut walk = GroupWalk::new();
        assert_eq!(walk.wait(now), None);
        for (jobs, walked_to, unfinished) in [
            // A small queue: one look passes all groups.
            (0, None, false),
            (3, None, true),
            (0, None, false),
            // A large one: the groups before the last job are passed once more.
            (0, Some("m"), true),
            (2, Some("t"), true),
            (0, None, true),
            (0, Some("m"), true),
            (0, None, false),
        ] {
            walk.note(now, took, jobs, place(walked_to));
            assert_eq!(walk.wait(now).is_some(), unfinished, "{jobs} {walked_to:?}");
            assert_eq!(walk.look(1, Vec::new()).after.as_deref(), walked_to);
        }
    }

    #[test]
    fn a_walk_without_a_result_starts_again_after_a_second() {
        let now = Instant::now();
        let took = Duration::from_millis(5);
        let mut walk = GroupWalk::new();
        walk.note(now, took, 0, place(Some("m")));
        assert_eq!(walk.wait(now), Some(took));
        walk.note(now, took, 0, place(None));
        walk.note(now, took, 0, place(Some("m")));
        assert_eq!(walk.wait(now), Some(WALK_EVERY));
        assert_eq!(walk.wait(now + WALK_EVERY), Some(took));
    }

    #[test]
    fn a_look_covers_more_groups_than_it_wants_jobs() {
        let mut walk = GroupWalk::new();
        assert_eq!(walk.look(1, Vec::new()).window, 65);
        assert_eq!(walk.look(1000, Vec::new()).window, 500);
        walk.note(Instant::now(), Duration::ZERO, 0, place(Some("m")));
        assert_eq!(walk.look(1, Vec::new()).window, 500);
    }
}
