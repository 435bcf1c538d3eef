//! The paths that jobs and letters take, and how often each was taken.

mod requirement;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;

#[cfg(test)]
pub(crate) use requirement::SHORTEST_ROUND;

/// A way in which a job or a letter changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Path {
    Enqueued,
    EnqueuedDelayed,
    EnqueuedByCopy,
    EnqueuedUnique,
    EnqueuedElsewhere,
    KeyHeld,
    Claimed,
    Attempted,
    AttemptedElsewhere,
    Promoted,
    Succeeded,
    SucceededInTransaction,
    Retried,
    OutageOrSnooze,
    Batched,
    BatchSplit,
    CheckpointStored,
    FollowedUp,
    Released,
    GivenBack,
    Reaped,
    ReapedDead,
    Overlapped,
    MovedByRing,
    PriorityChanged,
    RunAtOnce,
    ReorderedInBulk,
    EditedWaiting,
    CancelledInBulk,
    CancelledWaiting,
    CancelledRunning,
    Rejected,
    Exhausted,
    Redriven,
    RedrivenByRun,
    RedrivenValid,
    Recovered,
    Reopened,
    Discarded,
    Edited,
    Pruned,
    Paused,
    Resumed,
    Captured,
    CapturedAgain,
    Delivered,
    RedrivenByPolicy,
    Ticked,
    TickMissed,
    BreakerOpened,
    TurnTaken,
    Followed,
    GroupHeld,
    RedrivenFirst,
    GroupReleased,
    Diverted,
    LimitReached,
    FairTurn,
    PauseKnown,
    RateReached,
    GroupRateReached,
    PutOff,
    Triggered,
    TickOverlapped,
    SchedulePaused,
    Replaced,
    KeyFreedAtStart,
    Undone,
    Erased,
    Seen,
    NotDelivered,
    Quarantined,
    Archived,
    DeletedByRetention,
    Restored,
    DeletedFromArchive,
    PolicyTicked,
    BreakerTripped,
    Probed,
    BreakerReopened,
    BreakerClosed,
    Expired,
    Aged,
    Unhandled,
    Redacted,
}

impl Path {
    /// All paths, in the order of the table.
    const ALL: [Path; 85] = [
        Path::Enqueued,
        Path::EnqueuedDelayed,
        Path::EnqueuedByCopy,
        Path::EnqueuedUnique,
        Path::EnqueuedElsewhere,
        Path::KeyHeld,
        Path::Claimed,
        Path::Attempted,
        Path::AttemptedElsewhere,
        Path::Promoted,
        Path::Succeeded,
        Path::SucceededInTransaction,
        Path::Retried,
        Path::OutageOrSnooze,
        Path::Batched,
        Path::BatchSplit,
        Path::CheckpointStored,
        Path::FollowedUp,
        Path::Released,
        Path::GivenBack,
        Path::Reaped,
        Path::ReapedDead,
        Path::Overlapped,
        Path::MovedByRing,
        Path::PriorityChanged,
        Path::RunAtOnce,
        Path::ReorderedInBulk,
        Path::EditedWaiting,
        Path::CancelledInBulk,
        Path::CancelledWaiting,
        Path::CancelledRunning,
        Path::Rejected,
        Path::Exhausted,
        Path::Redriven,
        Path::RedrivenByRun,
        Path::RedrivenValid,
        Path::Recovered,
        Path::Reopened,
        Path::Discarded,
        Path::Edited,
        Path::Pruned,
        Path::Paused,
        Path::Resumed,
        Path::Captured,
        Path::CapturedAgain,
        Path::Delivered,
        Path::RedrivenByPolicy,
        Path::Ticked,
        Path::TickMissed,
        Path::BreakerOpened,
        Path::TurnTaken,
        Path::Followed,
        Path::GroupHeld,
        Path::RedrivenFirst,
        Path::GroupReleased,
        Path::Diverted,
        Path::LimitReached,
        Path::FairTurn,
        Path::PauseKnown,
        Path::RateReached,
        Path::GroupRateReached,
        Path::PutOff,
        Path::Triggered,
        Path::TickOverlapped,
        Path::SchedulePaused,
        Path::Replaced,
        Path::KeyFreedAtStart,
        Path::Undone,
        Path::Erased,
        Path::Seen,
        Path::NotDelivered,
        Path::Quarantined,
        Path::Archived,
        Path::DeletedByRetention,
        Path::Restored,
        Path::DeletedFromArchive,
        Path::PolicyTicked,
        Path::BreakerTripped,
        Path::Probed,
        Path::BreakerReopened,
        Path::BreakerClosed,
        Path::Expired,
        Path::Aged,
        Path::Unhandled,
        Path::Redacted,
    ];

    fn name(self) -> &'static str {
        match self {
            Path::Enqueued => "enqueued",
            Path::EnqueuedDelayed => "enqueued with a delay",
            Path::EnqueuedByCopy => "enqueued by COPY",
            Path::EnqueuedUnique => "enqueued with a key",
            Path::EnqueuedElsewhere => "enqueued elsewhere",
            Path::KeyHeld => "key held by a live job",
            Path::Claimed => "claimed",
            Path::Attempted => "attempts",
            Path::AttemptedElsewhere => "attempts elsewhere",
            Path::Promoted => "promoted",
            Path::Succeeded => "succeeded",
            Path::SucceededInTransaction => "… in a transaction",
            Path::Retried => "retried",
            Path::OutageOrSnooze => "outage or snooze",
            Path::Batched => "ran in a batch",
            Path::BatchSplit => "batch split",
            Path::CheckpointStored => "checkpoint stored",
            Path::FollowedUp => "followed up",
            Path::Released => "released",
            Path::GivenBack => "given back",
            Path::Reaped => "reaped",
            Path::ReapedDead => "reaped to death",
            Path::Overlapped => "overlapping runs",
            Path::MovedByRing => "moved by the ring",
            Path::PriorityChanged => "priority changed",
            Path::RunAtOnce => "run at once",
            Path::ReorderedInBulk => "reordered in bulk",
            Path::EditedWaiting => "edited while waiting",
            Path::CancelledInBulk => "cancelled in bulk",
            Path::CancelledWaiting => "cancelled waiting",
            Path::CancelledRunning => "cancelled running",
            Path::Rejected => "rejected",
            Path::Exhausted => "exhausted",
            Path::Redriven => "redriven",
            Path::RedrivenByRun => "redriven by a run",
            Path::RedrivenValid => "… after a validation",
            Path::Recovered => "recovered",
            Path::Reopened => "reopened",
            Path::Discarded => "discarded",
            Path::Edited => "edited",
            Path::Pruned => "pruned",
            Path::Paused => "queue paused",
            Path::Resumed => "queue resumed",
            Path::Captured => "captured",
            Path::CapturedAgain => "captured again",
            Path::Delivered => "delivered",
            Path::RedrivenByPolicy => "redriven by a worker",
            Path::Ticked => "schedule ticked",
            Path::TickMissed => "ticks missed",
            Path::BreakerOpened => "breaker opened",
            Path::TurnTaken => "turn of a group taken",
            Path::Followed => "ran as a follower",
            Path::GroupHeld => "group held by a letter",
            Path::RedrivenFirst => "holding letter redriven",
            Path::GroupReleased => "released a group",
            Path::Diverted => "diverted",
            Path::LimitReached => "limit of a group reached",
            Path::FairTurn => "turn of a fair group",
            Path::PauseKnown => "pause known to a worker",
            Path::RateReached => "rate limit reached",
            Path::GroupRateReached => "rate of a group reached",
            Path::PutOff => "put off without a token",
            Path::Triggered => "schedule triggered",
            Path::TickOverlapped => "tick overlapped",
            Path::SchedulePaused => "schedule paused",
            Path::Replaced => "replaced",
            Path::KeyFreedAtStart => "key freed at a start",
            Path::Undone => "edit undone",
            Path::Erased => "erased",
            Path::Seen => "captured while open",
            Path::NotDelivered => "delivery failed",
            Path::Quarantined => "quarantined",
            Path::Archived => "archived by retention",
            Path::DeletedByRetention => "deleted by retention",
            Path::Restored => "restored from archive",
            Path::DeletedFromArchive => "deleted from archive",
            Path::PolicyTicked => "policy ticked",
            Path::BreakerTripped => "breaker tripped",
            Path::Probed => "probed",
            Path::BreakerReopened => "breaker reopened",
            Path::BreakerClosed => "closed by a probe",
            Path::Expired => "expired",
            Path::Aged => "priority raised by age",
            Path::Unhandled => "unhandled",
            Path::Redacted => "redacted",
        }
    }
}

/// How often each path was taken.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Paths(BTreeMap<Path, u64>);

impl Paths {
    /// Counts a path.
    pub(crate) fn take(&mut self, path: Path) {
        *self.0.entry(path).or_default() += 1;
    }

    /// Counts several paths.
    pub(crate) fn take_all(&mut self, paths: impl IntoIterator<Item = Path>) {
        for path in paths {
            self.take(path);
        }
    }

    /// Returns how often it was taken.
    pub(crate) fn times(&self, path: Path) -> u64 {
        self.0.get(&path).copied().unwrap_or_default()
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A table of all paths, in three columns.
impl fmt::Display for Paths {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for row in Path::ALL.chunks(3) {
            write!(f, "\n   ")?;
            for path in row {
                write!(f, " {:>7} {:<24}", self.times(*path), path.name())?;
            }
        }
        Ok(())
    }
}
