//! How many visitors there may be at once.

use rustix::process::{Resource, getrlimit, setrlimit};

/// The most visitors at once, where the system lets us.
const MOST: u64 = 64;
/// There are never fewer, or nobody would be served.
const FEWEST: u64 = 4;
/// Descriptors that are kept for everything else: the connections to the database, the standard
/// streams, the listener, signals, the file with the URL.
const KEPT: u64 = 32;

/// Raises the limit of descriptors as far as it may be raised, and answers how many visitors fit
/// into it.
pub(crate) fn visitors() -> usize {
    let mut limit = getrlimit(Resource::Nofile);
    if limit.current != limit.maximum {
        let before = limit.current;
        limit.current = limit.maximum;
        // Not being allowed to is no reason not to serve.
        if setrlimit(Resource::Nofile, limit).is_err() {
            limit.current = before;
        }
    }
    fitting(limit.current)
}

/// How many visitors fit into a limit of descriptors; `None` is no limit.
fn fitting(descriptors: Option<u64>) -> usize {
    let fit = descriptors.map_or(MOST, |descriptors| {
        descriptors.saturating_sub(KEPT).clamp(FEWEST, MOST)
    });
    usize::try_from(fit).unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn visitors_leave_room_for_the_database() {
        for (descriptors, visitors) in [
            (None, 64),
            (Some(1 << 20), 64),
            (Some(96), 64),
            (Some(64), 32),
            (Some(33), 4),
            (Some(0), 4),
        ] {
            assert_eq!(fitting(descriptors), visitors, "{descriptors:?}");
        }
    }
}
