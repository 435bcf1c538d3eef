//! The paths that jobs and letters take, how often each was taken, and which ones a round must take.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use crate::fault::Fault;
use crate::round::Round;

/// A way in which a job or a letter changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Path {
    Enqueued,
    EnqueuedDelayed,
    EnqueuedByCopy,
    EnqueuedUnique,
    KeyHeld,
    Claimed,
    Attempted,
    Promoted,
    Succeeded,
    SucceededInTransaction,
    Retried,
    OutageOrSnooze,
    CheckpointStored,
    FollowedUp,
    Released,
    GivenBack,
    Reaped,
    ReapedDead,
    Overlapped,
    MovedByRing,
    PriorityChanged,
    CancelledWaiting,
    CancelledRunning,
    Rejected,
    Exhausted,
    Redriven,
    RedrivenByRun,
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
}

/// The length of the shortest rounds that must take the frequent paths.
pub(crate) const SHORTEST_ROUND: Duration = Duration::from_secs(40);
/// The length of the rounds of a long run, which must take all paths.
const FIVE_MINUTES: Duration = Duration::from_mins(5);

/// In a long round, at least one of this many attempts overlaps with another one at its job.
const OVERLAP: u64 = 100;
/// With more jobs per second, one worker cannot run the jobs of the others in time.
const MAX_RATE: u32 = 20;
/// At least one of this many jobs has a unique key.
const KEYED: u64 = 5;

impl Path {
    /// All paths, in the order of the table.
    const ALL: [Path; 41] = [
        Path::Enqueued,
        Path::EnqueuedDelayed,
        Path::EnqueuedByCopy,
        Path::EnqueuedUnique,
        Path::KeyHeld,
        Path::Claimed,
        Path::Attempted,
        Path::Promoted,
        Path::Succeeded,
        Path::SucceededInTransaction,
        Path::Retried,
        Path::OutageOrSnooze,
        Path::CheckpointStored,
        Path::FollowedUp,
        Path::Released,
        Path::GivenBack,
        Path::Reaped,
        Path::ReapedDead,
        Path::Overlapped,
        Path::MovedByRing,
        Path::PriorityChanged,
        Path::CancelledWaiting,
        Path::CancelledRunning,
        Path::Rejected,
        Path::Exhausted,
        Path::Redriven,
        Path::RedrivenByRun,
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
    ];

    fn name(self) -> &'static str {
        match self {
            Path::Enqueued => "enqueued",
            Path::EnqueuedDelayed => "enqueued with a delay",
            Path::EnqueuedByCopy => "enqueued by COPY",
            Path::EnqueuedUnique => "enqueued with a key",
            Path::KeyHeld => "key held by a live job",
            Path::Claimed => "claimed",
            Path::Attempted => "attempts",
            Path::Promoted => "promoted",
            Path::Succeeded => "succeeded",
            Path::SucceededInTransaction => "… in a transaction",
            Path::Retried => "retried",
            Path::OutageOrSnooze => "outage or snooze",
            Path::CheckpointStored => "checkpoint stored",
            Path::FollowedUp => "followed up",
            Path::Released => "released",
            Path::GivenBack => "given back",
            Path::Reaped => "reaped",
            Path::ReapedDead => "reaped to death",
            Path::Overlapped => "overlapping runs",
            Path::MovedByRing => "moved by the ring",
            Path::PriorityChanged => "priority changed",
            Path::CancelledWaiting => "cancelled waiting",
            Path::CancelledRunning => "cancelled running",
            Path::Rejected => "rejected",
            Path::Exhausted => "exhausted",
            Path::Redriven => "redriven",
            Path::RedrivenByRun => "redriven by a run",
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
        }
    }

    /// Returns how long a round must be to take this path for certain. `None`: no length is enough,
    /// because the path depends on the speed of the machine.
    fn required_from(self) -> Option<Duration> {
        match self {
            Path::ReapedDead
            | Path::CapturedAgain
            | Path::CancelledRunning
            | Path::RedrivenByRun
            | Path::Overlapped
            | Path::GivenBack
            | Path::Resumed
            | Path::Exhausted => Some(FIVE_MINUTES),
            Path::MovedByRing | Path::TickMissed => None,
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
                self.times(path) * OVERLAP < self.times(Path::Attempted).max(1)
            }
            Path::EnqueuedUnique => self.times(path) * KEYED < self.times(Path::Enqueued).max(1),
            _ => self.times(path) == 0,
        }
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

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use redrive::Pooler;

    use super::*;
    use crate::Programs;

    /// Returns whether a round with one fault misses a path.
    fn misses(paths: &Paths, path: Path, length: Duration, fault: Fault) -> bool {
        misses_at(paths, path, length, fault, 20)
    }

    fn misses_at(paths: &Paths, path: Path, length: Duration, fault: Fault, rate: u32) -> bool {
        let programs = Programs {
            postgres: PathBuf::new(),
            pgbouncer: PathBuf::new(),
        };
        let round = Round {
            programs: &programs,
            seed: 1,
            length,
            faults: vec![fault],
            rate,
            pooler: Pooler::Session,
        };
        paths.missing(&round).contains(&path)
    }

    #[test]
    fn a_round_misses_the_required_paths_that_it_did_not_take() {
        let mut paths = Paths::default();
        for (path, length, fault, is_missed) in [
            (Path::Reaped, SHORTEST_ROUND, Fault::Kill, true),
            // No fault leads there.
            (Path::Reaped, SHORTEST_ROUND, Fault::Pause, false),
            // The round is too short.
            (Path::Overlapped, SHORTEST_ROUND, Fault::Pause, false),
            (Path::Overlapped, FIVE_MINUTES, Fault::Pause, true),
            (Path::MovedByRing, FIVE_MINUTES, Fault::Pause, false),
            (Path::Claimed, SHORTEST_ROUND, Fault::Pause, true),
            (Path::Claimed, Duration::from_secs(39), Fault::Pause, false),
        ] {
            assert_eq!(misses(&paths, path, length, fault), is_missed, "{path}");
        }
        for path in Path::ALL {
            paths.take(path);
            assert!(!misses(&paths, path, FIVE_MINUTES, Fault::Kill), "{path}");
        }
    }

    #[test]
    fn a_long_round_needs_a_share_of_overlapping_attempts_and_unique_keys() {
        let mut paths = Paths::default();
        let misses = |paths: &Paths, path| misses(paths, path, FIVE_MINUTES, Fault::Pause);
        paths.take_all([Path::Attempted; 200]);
        paths.take(Path::Overlapped);
        assert!(misses(&paths, Path::Overlapped), "one of 200");
        let at_full_load = misses_at(&paths, Path::Overlapped, FIVE_MINUTES, Fault::Pause, 21);
        assert!(!at_full_load, "one is enough at a high rate");
        paths.take(Path::Overlapped);
        assert!(!misses(&paths, Path::Overlapped), "one of 100");
        paths.take_all([Path::Enqueued; 6]);
        paths.take(Path::EnqueuedUnique);
        assert!(misses(&paths, Path::EnqueuedUnique), "one of six");
        paths.take(Path::EnqueuedUnique);
        assert!(!misses(&paths, Path::EnqueuedUnique), "one of three");
    }

    #[test]
    fn the_table_lists_every_path_once() {
        let mut paths = Paths::default();
        paths.take(Path::Reaped);
        paths.take(Path::Reaped);
        let table = paths.to_string();
        for path in Path::ALL {
            let cell = format!(" {:<24}", path.name());
            assert_eq!(table.matches(&cell).count(), 1, "{path}");
        }
        assert!(table.contains("      2 reaped "), "{table}");
    }
}
