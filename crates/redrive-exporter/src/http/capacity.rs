//! How many connections may be open at once.

use rustix::process::{Resource, getrlimit};

/// The limit of places where the system has enough descriptors.
const MAX_PLACES: usize = 64;
/// The limit of waiting connections where the system has enough descriptors.
const MAX_WAITING: usize = 256;
/// The limit of all connections where it does not.
const MIN_CONNECTIONS: usize = 4;
/// Descriptors reserved for everything else: the connections to the database, the standard streams,
/// the listener, the signal pipe, the wake-up of the accept loop, and the file with the URL.
const RESERVED_DESCRIPTORS: u64 = 32;

/// The limits of open connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Capacity {
    /// How many connections are served at once.
    pub(crate) places: usize,
    /// How many more may send their requests, or wait for a place.
    pub(crate) waiting: usize,
}

impl Capacity {
    /// Returns how many connections fit into the soft limit of descriptors: at most 64 places and 256 waiting
    /// connections, at least 2 of each.
    pub(crate) fn of_process() -> Capacity {
        Capacity::for_descriptors(getrlimit(Resource::Nofile).current)
    }

    /// Returns how many scrapes may wait for the database.
    ///
    /// A third of the places: the others answer at once, whatever the database does.
    pub(crate) fn waiting_scrapes(self) -> usize {
        (self.places / 3).max(1)
    }

    /// Returns how many connections fit into a limit of descriptors; `None` is no limit.
    fn for_descriptors(descriptors: Option<u64>) -> Capacity {
        let most = MAX_PLACES + MAX_WAITING;
        let connections = descriptors.map_or(most, |descriptors| {
            let left = descriptors.saturating_sub(RESERVED_DESCRIPTORS);
            usize::try_from(left)
                .unwrap_or(most)
                .clamp(MIN_CONNECTIONS, most)
        });
        let places = (connections / 2).min(MAX_PLACES);
        Capacity {
            places,
            waiting: connections - places,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_leave_descriptors_for_the_database() {
        for (descriptors, places, waiting) in [
            (None, 64, 256),
            (Some(1 << 20), 64, 256),
            (Some(352), 64, 256),
            (Some(160), 64, 64),
            (Some(96), 32, 32),
            (Some(64), 16, 16),
            (Some(33), 2, 2),
            (Some(0), 2, 2),
        ] {
            let capacity = Capacity::for_descriptors(descriptors);
            assert_eq!(capacity, Capacity { places, waiting }, "{descriptors:?}");
            assert!(capacity.waiting_scrapes() <= places / 2);
        }
    }
}
