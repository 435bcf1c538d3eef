//! How many connections may be open at once.

use rustix::process::{Resource, getrlimit, setrlimit};

/// The limit where the system has enough descriptors.
const MAX_CONNECTIONS: u64 = 64;
/// The limit where it does not.
const MIN_CONNECTIONS: u64 = 4;
/// Descriptors reserved for everything else: the connections to the database, the standard streams,
/// the listener, the signal pipe, and the file with the URL.
const RESERVED_DESCRIPTORS: u64 = 32;

/// Raises the soft limit of descriptors to the hard limit and returns how many connections fit.
///
/// At most 64, at least 4.
pub(crate) fn max_connections() -> usize {
    let mut limit = getrlimit(Resource::Nofile);
    if limit.current != limit.maximum {
        let before = limit.current;
        limit.current = limit.maximum;
        // A lower limit is enough to serve.
        if setrlimit(Resource::Nofile, limit).is_err() {
            limit.current = before;
        }
    }
    connections_for(limit.current)
}

/// Returns how many connections fit into a limit of descriptors; `None` is no limit.
fn connections_for(descriptors: Option<u64>) -> usize {
    let connections = descriptors.map_or(MAX_CONNECTIONS, |descriptors| {
        descriptors
            .saturating_sub(RESERVED_DESCRIPTORS)
            .clamp(MIN_CONNECTIONS, MAX_CONNECTIONS)
    });
    usize::try_from(connections).unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_leave_descriptors_for_the_database() {
        for (descriptors, connections) in [
            (None, 64),
            (Some(1 << 20), 64),
            (Some(96), 64),
            (Some(64), 32),
            (Some(33), 4),
            (Some(0), 4),
        ] {
            assert_eq!(connections_for(descriptors), connections, "{descriptors:?}");
        }
    }
}
