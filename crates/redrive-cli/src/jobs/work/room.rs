//! Room for the descriptors of a worker and its commands.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// The descriptors of a worker without its slots: connections, signals, and those of a command that just starts.
const WORKER: u64 = 64;

/// Raises the soft limit of open files if it leaves no room for these slots, of which each has the stderr of its
/// command. A command that finds no descriptor, process or memory waits for it.
pub(super) fn raise(slots: usize) {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let needed = WORKER.saturating_add(slots as u64);
    if current.is_none_or(|current| current >= needed) {
        return;
    }
    let raised = Rlimit {
        current: Some(maximum.map_or(needed, |maximum| maximum.min(needed))),
        maximum,
    };
    if let Err(error) = setrlimit(Resource::Nofile, raised) {
        log::debug!("could not raise the limit of open files: {error}");
    }
}
