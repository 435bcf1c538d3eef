//! How many connections may be open at once.

use rustix::process::{Resource, getrlimit};

/// The limit where the system has enough descriptors.
const MAX_CONNECTIONS: usize = 256;
/// The limit where it does not.
const MIN_CONNECTIONS: usize = 4;
/// Descriptors reserved for everything else: the connections to the database, the standard streams,
/// the listener, the signal pipe, and the file with the URL.
const RESERVED_DESCRIPTORS: u64 = 32;

/// Returns how many connections fit into the soft limit of descriptors: from 4 to 256.
pub(crate) fn most_connections() -> usize {
    connections(getrlimit(Resource::Nofile).current)
}

/// Returns how many connections fit into a limit of descriptors; `None` is no limit.
fn connections(descriptors: Option<u64>) -> usize {
    descriptors.map_or(MAX_CONNECTIONS, |descriptors| {
        let left = descriptors.saturating_sub(RESERVED_DESCRIPTORS);
        let left = usize::try_from(left).unwrap_or(MAX_CONNECTIONS);
        left.clamp(MIN_CONNECTIONS, MAX_CONNECTIONS)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_leave_descriptors_for_the_database() {
        for (descriptors, most) in [
            (None, 256),
            (Some(1 << 20), 256),
            (Some(288), 256),
            (Some(96), 64),
            (Some(33), 4),
            (Some(0), 4),
        ] {
            assert_eq!(connections(descriptors), most, "{descriptors:?}");
        }
    }
}
