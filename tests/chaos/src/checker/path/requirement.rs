//! Which paths a round must take.

use std::time::Duration;

use super::{Path, Paths};
use crate::fault::Fault;
use crate::round::Round;

/// The length of the shortest rounds that must take the frequent paths.
pub(crate) const SHORTEST_ROUND: Duration = Duration::from_secs(40);
/// The length of the rounds of a long run, which must take all paths.
pub(super) const FIVE_MINUTES: Duration = Duration::from_mins(5);

/// In a long round, at least one of this many attempts overlaps with another one at its job.
const OVERLAP: u64 = 100;
/// With more jobs per second, one worker cannot run the jobs of the others in time.
const MAX_RATE: u32 = 20;
/// At least one of this many jobs has a unique key.
const KEYED: u64 = 5;

impl Path {
    /// Returns how long a round must be to take this path for certain. `None`: no length is enough,
    /// because the path depends on the speed of the machine.
    fn required_from(self) -> Option<Duration> {
        match self {
            Path::ReapedDead
            | Path::CapturedAgain
            | Path::CancelledRunning
            | Path::RedrivenByRun
            | Path::RedrivenValid
            | Path::Overlapped
            | Path::GivenBack
            | Path::Resumed
            | Path::RedrivenFirst
            | Path::GroupReleased
            | Path::PauseKnown
            | Path::RateReached
            | Path::GroupRateReached
            | Path::Triggered
            | Path::SchedulePaused
            | Path::Replaced
            | Path::KeyFreedAtStart
            | Path::TickOverlapped
            | Path::TickMissed
            | Path::Undone
            | Path::Erased
            | Path::Seen
            | Path::NotDelivered
            | Path::Quarantined
            | Path::DeletedFromArchive
            | Path::BreakerReopened
            | Path::Aged
            | Path::RunAtOnce
            | Path::ReorderedInBulk
            | Path::EditedWaiting
            | Path::CancelledInBulk
            | Path::Exhausted => Some(FIVE_MINUTES),
            // Only fast jobs have followers.
            Path::MovedByRing | Path::PutOff | Path::Followed => None,
            _ => Some(SHORTEST_ROUND),
        }
    }

    /// Returns the fault that leads to this path. A round without this fault need not take it.
    pub(crate) fn fault(self) -> Option<Fault> {
        match self {
            Path::Released => Some(Fault::Terminate),
            Path::Reaped | Path::ReapedDead => Some(Fault::Kill),
            Path::Overlapped => Some(Fault::Pause),
            _ => None,
        }
    }
}

impl Paths {
    /// Returns the paths that a round like this must take, but did not.
    pub(crate) fn missing(&self, round: &Round<'_>) -> Vec<Path> {
        let is_required = |path: &Path| {
            path.required_from()
                .is_some_and(|least| round.length >= least)
                && path
                    .fault()
                    .is_none_or(|fault| round.faults.contains(&fault))
        };
        let required = Path::ALL.into_iter().filter(is_required);
        required
            .filter(|path| self.is_missed(*path, round.rate))
            .collect()
    }

    fn is_missed(&self, path: Path, rate: u32) -> bool {
        match path {
            Path::Overlapped if rate <= MAX_RATE => {
                // The handlers of the other queues rarely run for longer than a lease.
                let others = self.times(Path::Attempted) - self.times(Path::AttemptedElsewhere);
                self.times(path) * OVERLAP < others.max(1)
            }
            // Jobs of the other queues have no keys.
            Path::EnqueuedUnique => {
                let others = self.times(Path::Enqueued) - self.times(Path::EnqueuedElsewhere);
                self.times(path) * KEYED < others.max(1)
            }
            _ => self.times(path) == 0,
        }
    }
}
