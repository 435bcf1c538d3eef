//! Recovery: how soon all is well again after a fault, as numbers that follow from the configuration.

use std::time::Duration;

use crate::worker::fetch::LONGEST_PAUSE;
use crate::worker::limits::RENEWALS;

/// The longest time between two looks for lost jobs.
pub(crate) const LOOK_EVERY: Duration = Duration::from_secs(10);

/// The longest wait for a notification in one call: how late the pulse notices anything else.
pub(crate) const LISTEN: Duration = Duration::from_millis(250);

/// What the pulse and the fetcher need beside their pauses until they see that all is well: half a
/// second after a renewal that failed, and a look.
const LOOKS: Duration = Duration::from_secs(1);

/// How soon a worker, and the jobs of one that died, recover: the most it takes.
///
/// These are the bounds that redrive publishes. They count from when the database can be reached,
/// and a machine that is overloaded adds what it adds.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let db = redrive::connect(&std::env::var("DATABASE_URL")?)?;
/// let orders = redrive::Queue::new(&db, "orders")?;
/// let recovery = redrive::Worker::builder(&orders).recovery();
/// assert!(recovery.jobs.as_secs() <= 74 && recovery.worker.as_secs() <= 31);
/// # Ok(()) }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Recovery {
    /// From the death of a worker until others can claim its jobs: a lease, the time between two
    /// looks for lost jobs (a third of a lease, 10 seconds at most), and a poll. 73.85 seconds by
    /// default. From the second crash of a job on it also waits for up to 5 seconds a crash.
    pub jobs: Duration,
    /// The same when the server has restarted, or was away for longer than a lease: a lease more, in
    /// which workers that live can say so. 133.85 seconds by default.
    pub jobs_after_outage: Duration,
    /// From the end of a fault of the database until a worker that outlived it claims again: the
    /// deadlines of a call and of a connection, the longest pause between two attempts, 5 seconds,
    /// and a second. 31 seconds by default.
    pub worker: Duration,
}

impl Recovery {
    /// What follows from these numbers.
    pub(crate) fn of(
        lease: Duration,
        poll: Duration,
        call_timeout: Duration,
        connect_timeout: Duration,
    ) -> Recovery {
        let jobs = lease + look_every(lease) + LISTEN + poll.mul_f64(1.2);
        Recovery {
            jobs,
            jobs_after_outage: jobs + lease,
            worker: call_timeout + connect_timeout + LONGEST_PAUSE + LOOKS,
        }
    }
}

/// How often a worker looks for chores, lost jobs among them.
pub(crate) fn look_every(lease: Duration) -> Duration {
    LOOK_EVERY.min(lease / RENEWALS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bounds_are_the_sums_of_what_has_to_pass() {
        let (ms, s) = (Duration::from_millis, Duration::from_secs);
        for (lease, poll, call, connect, jobs, worker) in [
            (s(60), s(3), s(15), s(10), ms(73_850), s(31)),
            (s(3), ms(5), s(1), ms(500), ms(4_256), ms(7_500)),
            (s(3600), s(60), s(15), s(10), ms(3_682_250), s(31)),
        ] {
            let recovery = Recovery::of(lease, poll, call, connect);
            let expected = Recovery {
                jobs,
                jobs_after_outage: jobs + lease,
                worker,
            };
            assert_eq!(recovery, expected, "{lease:?} {poll:?}");
        }
    }
}
