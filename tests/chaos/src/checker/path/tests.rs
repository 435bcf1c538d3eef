//! Which paths a round must take.

use std::path::PathBuf;
use std::time::Duration;

use redrive::Pooler;

use super::requirement::FIVE_MINUTES;
use super::*;
use crate::Programs;
use crate::fault::Fault;
use crate::round::Round;

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
    paths.take_all([Path::Attempted, Path::AttemptedElsewhere]);
    paths.take(Path::Overlapped);
    assert!(misses(&paths, Path::Overlapped), "one of 200");
    let at_full_load = misses_at(&paths, Path::Overlapped, FIVE_MINUTES, Fault::Pause, 21);
    assert!(!at_full_load, "one is enough at a high rate");
    paths.take(Path::Overlapped);
    assert!(!misses(&paths, Path::Overlapped), "one of 100");
    paths.take_all([Path::Enqueued, Path::EnqueuedElsewhere]);
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
